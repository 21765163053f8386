"""Versions of what the oracles run.  versions_oracle.py OUT.json PACKAGE.."""
import importlib.metadata
import json
import sys


def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


json.dump({name: version(name) for name in sys.argv[2:]}, open(sys.argv[1], "w"))
