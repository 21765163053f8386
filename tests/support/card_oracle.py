"""Oracle of tst_export_common: a model card as the Hub reads it.  card_oracle.py README.md OUT.json"""
import json
import re
import sys

import yaml
from huggingface_hub import ModelCard

card, out = sys.argv[1:]
text = open(card, encoding="utf-8").read()
front = yaml.safe_load(re.match(r"\A---\n(.*?\n)---\n", text, re.S).group(1))
data = ModelCard(text).data.to_dict()  # refuses what the Hub can't parse
assert data == front, (data, front)
json.dump({"data": data, "blocks": re.findall(r"^([^\n:]+):\n```(\w+)\n(.*?)```", text, re.S | re.M)}, open(out, "w"))
