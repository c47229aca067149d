from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kubeproof_options():
    return {"nodes": 1, "load": [Path(__file__).parent / "shop_definition.yaml"]}
