"""The systemd unit."""

import configparser
import os

from trainwright.server.unit import unit


def test_the_unit_runs_what_was_asked_for():
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit(["/opt/tw", "serve", "--state", "/a b"]))
    assert parser["Service"]["ExecStart"] == "/opt/tw serve --state '/a b'"
    assert parser["Install"]["WantedBy"] == ("default.target" if os.getuid() else "multi-user.target")
