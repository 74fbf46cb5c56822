"""Tests of execsrv.session.config."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest

from execsrv.session.config import ConfigError, SessionConfig, load_config

USE = "experimental_unified_exec_use_exec_server"
SPAWN = "experimental_unified_exec_spawn_local_exec_server"
URL = "experimental_unified_exec_exec_server_websocket_url"
WORKSPACE_ROOT = "experimental_unified_exec_exec_server_workspace_root"
LOCAL_ROOT = "experimental_unified_exec_exec_server_local_root"

EVERYTHING = f"""
{USE} = true
{SPAWN} = true
{URL} = "ws://127.0.0.1:8765"
{WORKSPACE_ROOT} = "/srv/space"
{LOCAL_ROOT} = "/home/me/code"
experimental_supported_tools = ["read_file", "list_dir"]
project_doc_max_bytes = 7
project_doc_fallback_filenames = ["NOTES.md"]
project_root_markers = [".hg", ".git"]
background_terminal_max_timeout = 60000
"""


def test_nothing_said_is_the_defaults() -> None:
    """Local, with the limits that Codex has."""
    config = load_config("")
    assert config == SessionConfig()
    assert not config.experimental_unified_exec_use_exec_server
    assert not config.experimental_unified_exec_spawn_local_exec_server
    assert config.experimental_unified_exec_exec_server_websocket_url is None
    assert config.experimental_unified_exec_exec_server_workspace_root is None
    assert config.experimental_unified_exec_exec_server_local_root is None
    assert config.experimental_supported_tools == ()
    assert (config.project_doc_max_bytes, config.background_terminal_max_timeout) == (32768, 300000)
    assert (config.project_doc_fallback_filenames, config.project_root_markers) == ((), (".git",))


@pytest.mark.parametrize("form", ["{}", "{}[profiles.mine]\n{}", "[profiles.mine]\n{}"])
def test_every_setting_can_be_made(form: str, caplog: pytest.LogCaptureFixture) -> None:
    """At the top level and in a profile; every key is known."""
    config = load_config(form.format(EVERYTHING, EVERYTHING), profile="mine" if "mine" in form else None)
    assert config == SessionConfig(
        True,
        True,
        "ws://127.0.0.1:8765",
        "/srv/space",
        "/home/me/code",
        ("read_file", "list_dir"),
        7,
        ("NOTES.md",),
        (".hg", ".git"),
        60000,
    )
    default = SessionConfig()
    assert all(getattr(config, field.name) != getattr(default, field.name) for field in dataclasses.fields(config))
    assert caplog.records == []


def test_a_file_is_read(tmp_path: Path) -> None:
    """By its path; one that is not there is the system's error."""
    (tmp_path / "config.toml").write_text('project_root_markers = ["ü"]', encoding="utf-8")
    assert load_config(tmp_path / "config.toml").project_root_markers == ("ü",)
    with pytest.raises(FileNotFoundError):
        load_config(tmp_path / "missing.toml")


def test_a_profile_wins() -> None:
    """Setting by setting, over the top level; other profiles and no profile have no effect."""
    text = """
        project_doc_max_bytes = 1
        background_terminal_max_timeout = 1
        [profiles.a]
        project_doc_max_bytes = 2
        [profiles.b]
        project_doc_max_bytes = 3
    """
    assert load_config(text, profile="a") == SessionConfig(project_doc_max_bytes=2, background_terminal_max_timeout=1)
    assert load_config(text, profile="b").project_doc_max_bytes == 3
    assert load_config(text).project_doc_max_bytes == 1


def test_a_profile_without_a_name_is_one_like_others() -> None:
    """It is not taken unasked."""
    text = '[profiles.""]\nproject_doc_max_bytes = 2'
    assert load_config(text).project_doc_max_bytes == 32768
    assert load_config(text, profile="").project_doc_max_bytes == 2


def test_an_empty_list_wins_over_a_default() -> None:
    """No markers is not the same as none said."""
    assert load_config("project_root_markers = []").project_root_markers == ()


@pytest.mark.parametrize("said, url", [("  ws://h:1\t", "ws://h:1"), ("", None), (" \\n", None)])
def test_the_url_is_trimmed(said: str, url: str | None) -> None:
    """And an empty one is none."""
    assert load_config(f'{URL} = "{said}"').experimental_unified_exec_exec_server_websocket_url == url


def test_an_empty_url_in_a_profile_takes_the_other_away() -> None:
    """So a profile can go back to a server of its own."""
    text = f'{URL} = "ws://h:1"\n[profiles.p]\n{URL} = ""'
    assert load_config(text, profile="p").experimental_unified_exec_exec_server_websocket_url is None


@pytest.mark.parametrize(
    "text, used",
    [
        ("[features]\nexperimental_exec_server = true", True),
        (f"{USE} = false\n[features]\nexperimental_exec_server = true", False),
        (f"{USE} = true\n[features]\nexperimental_exec_server = false", True),
        (f"{USE} = false\n[profiles.p.features]\nexperimental_exec_server = true", True),
        (f"[features]\nexperimental_exec_server = true\n[profiles.p]\n{USE} = false", False),
        ("[profiles.p]", False),
    ],
)
def test_the_older_name_of_the_switch_counts(text: str, used: bool) -> None:
    """The newer one wins over it, and a profile over the top level, whatever name is used."""
    config = load_config(text, profile="p" if "profiles" in text else None)
    assert config.experimental_unified_exec_use_exec_server is used


@pytest.mark.parametrize(
    "text, key",
    [
        ("model = 1", "model"),
        ("[features]\nother = true", "features.other"),
        ("[profiles.p]\nproject_doc_maxbytes = 1", "profiles.p.project_doc_maxbytes"),
        ("[profiles.p.features]\nx = 1", "profiles.p.features.x"),
        ("[profiles.p.profiles]\nx = 1", "profiles.p.profiles"),
        ("[tools]\nx = 1", "tools"),
    ],
)
def test_an_unknown_key_is_reported(text: str, key: str, caplog: pytest.LogCaptureFixture) -> None:
    """By its whole name, also in a profile that is not used, and all else counts."""
    assert load_config(f"project_doc_max_bytes = 5\n{text}") == SessionConfig(project_doc_max_bytes=5)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith(f": {key}")


@pytest.mark.parametrize(
    "text, key, fault",
    [
        (f"{USE} = 1", USE, "must be true or false, not 1"),
        (f"{SPAWN} = 'yes'", SPAWN, "must be true or false, not 'yes'"),
        (f"{URL} = 8765", URL, "must be a string, not 8765"),
        (f"{WORKSPACE_ROOT} = 'work'", WORKSPACE_ROOT, "must be an absolute path, not 'work'"),
        (f"{WORKSPACE_ROOT} = ''", WORKSPACE_ROOT, "must be an absolute path, not ''"),
        (f"{LOCAL_ROOT} = './code'", LOCAL_ROOT, "must be an absolute path, not './code'"),
        ("experimental_supported_tools = 'a'", "experimental_supported_tools", "must be an array of strings, not 'a'"),
        ("project_root_markers = ['a', 1]", "project_root_markers", "must be an array of strings, not ['a', 1]"),
        ("project_doc_max_bytes = -1", "project_doc_max_bytes", "must be a whole number, 0 or more, not -1"),
        ("project_doc_max_bytes = true", "project_doc_max_bytes", "must be a whole number, 0 or more, not True"),
        ("project_doc_max_bytes = 1.5", "project_doc_max_bytes", "must be a whole number, 0 or more, not 1.5"),
        ("features = 1", "features", "must be a table, not 1"),
        (
            "[features]\nexperimental_exec_server = 0",
            "features.experimental_exec_server",
            "must be true or false, not 0",
        ),
        ("profiles = []", "profiles", "must be a table, not []"),
        ("[profiles]\np = 1", "profiles.p", "must be a table, not 1"),
        (f"[profiles.p]\n{USE} = 1", f"profiles.p.{USE}", "must be true or false, not 1"),
        ("[profiles.p]\nfeatures = 1", "profiles.p.features", "must be a table, not 1"),
    ],
)
def test_a_wrong_value_is_refused(text: str, key: str, fault: str) -> None:
    """The error names the key and what is wrong with the value, also in a profile that is not used."""
    with pytest.raises(ConfigError) as caught:
        load_config(text)
    assert (caught.value.key, caught.value.fault) == (key, fault)
    assert str(caught.value) == f"{key}: {fault}"


def test_a_profile_that_is_not_there_is_refused() -> None:
    """Rather than passed over."""
    with pytest.raises(ConfigError, match="^profiles.other: there is no such profile$"):
        load_config("[profiles.mine]", profile="other")


def test_what_is_not_toml_is_refused(tmp_path: Path) -> None:
    """The parser says where."""
    with pytest.raises(ConfigError, match="not TOML: .*line 1"):
        load_config("a = = 1")
    (tmp_path / "config.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigError, match="not TOML: .*utf-8"):
        load_config(tmp_path / "config.toml")
    assert issubclass(ConfigError, ValueError)
