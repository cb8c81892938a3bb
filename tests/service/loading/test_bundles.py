"""A fleet's bundle: what no signature covers is not imported."""

from __future__ import annotations

import hashlib

import pytest

from hooklatch.fleet.host.following import find_fleet_misfit
from hooklatch.service.config.configuration import FileConfig, read_config
from hooklatch.service.loading.build import prepare_version
from hooklatch.service.loading.plan import ReloadPlan
from hooklatch.service.loading.see import BundleFiles, FleetFiles
from hooklatch.service.loading.sources import SourceVersion, UnitError
from hooklatch_worker.wire import Source

ROOT = "/state/fleet/7"


def test_a_source_of_a_bundle_requires_no_packages() -> None:
    code = b'# /// script\n# dependencies = ["httpx"]\n# ///\n'
    digest = hashlib.sha256(code).hexdigest()
    bundle = BundleFiles(root=ROOT, pins={"guard.py": digest})
    plan = ReloadPlan(main=FileConfig("/etc/hooks.toml"), fleet=FleetFiles((bundle,)))
    version = SourceVersion(Source("file", f"{ROOT}/guard.py", digest), code, {}, 0)

    with pytest.raises(UnitError, match="no signature covers"):
        prepare_version(version, plan)


def test_a_file_of_a_bundle_names_no_interpreter() -> None:
    text = b'[[source]]\npath = "guard.py"\npython = "/usr/bin/python3"\n'
    fault = find_fleet_misfit(ROOT, read_config(f"{ROOT}/hooks.toml", text, ("source", "hook")))

    assert fault is not None
    assert "names the interpreter /usr/bin/python3" in fault.message
