namespace linnet::widgets {}
