"""Makes tests/golden/closed_form_prototype.json: the closed form as an independent PyTorch prototype computes it (its fit_layer with grid "dbc",
constant gate, ridge W_O, values at RMS 1) on the first 16 windows of 256 tokens of the default text.
make_closed_form_golden.py FOLDER_OF_run_spike.py TEACHER.gguf TOKENS.json OUT      TOKENS.json: {"hash", "ids"} of those windows"""
import json
import sys

import torch

LAYERS, SEQUENCES, TOKENS = (0, 5, 17), 16, 256

folder, teacher, tokens, out = sys.argv[1:]
sys.path.insert(0, folder)
import run_spike as R  # noqa: E402

windows = json.load(open(tokens))
tc = R.load_teacher([teacher], "cpu", max(LAYERS) + 1)
capture = R.capture(tc, torch.tensor(windows["ids"]).view(SEQUENCES, TOKENS), bs=4)
answer = {"window_hash": windows["hash"], "sequences": SEQUENCES, "seq_len": TOKENS, "layers": {}}
for layer in LAYERS:
    info = {}
    P = R.fit_layer(tc, layer, capture, {"grid": "dbc", "gate": "const", "wo": "ridge"}, ngrid=SEQUENCES, info=info)
    x, y = capture.x[layer], capture.yh[layer] @ tc.layers[layer]["wo"].T
    error = (R.student(tc, P, x[None])[0] - y).square().sum() / y.square().sum()
    residuals = [R.head_residual(tc, layer, R.readout(tc, P, x[None]), capture.yh[layer], 1e-4)[h].item() for h in range(tc.H)]
    picks = [{"half_life": p["hl"] if p["hl"] < 1e6 else None, "beta": p["beta"], "histogram_taps": p["conv"] == "hist"} for p in info[layer]["pick"]]
    answer["layers"][str(layer)] = {"residuals": residuals, "picks": picks, "relative_error": error.item()}
    print(layer, residuals, error.item(), flush=True)
json.dump(answer, open(out, "w"), indent=1)
