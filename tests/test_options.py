"""Options from environment variables."""

from __future__ import annotations

import pytest

from execsrv.config import LIMITS, ExecServerConfig
from execsrv.options import OptionError, Options, options_of


def test_without_variables_the_defaults_hold() -> None:
    """Also with variables of others, and with empty ones."""
    nothing = Options(ExecServerConfig(), allow_origins=(), allow_hosts=(), insecure_no_auth=False)
    assert options_of({}) == nothing
    assert options_of({"EXECSRV_PORT": "tcp://10.0.0.1:80", "max_connections": "7"}) == nothing
    assert options_of({"EXECSRV_MAX_CONNECTIONS": "", "EXECSRV_INSECURE_NO_AUTH": ""}) == nothing


@pytest.mark.parametrize("field", LIMITS)
def test_every_limit_can_be_set(field: str) -> None:
    """To both ends of its range, and no further."""
    minimum, maximum, _ = LIMITS[field]
    for value in (minimum, maximum):
        assert getattr(options_of({f"EXECSRV_{field.upper()}": str(value)}).config, field) == value
    for text in (str(minimum - 1), str(maximum + 1), "1.5", "many", " "):
        with pytest.raises(OptionError, match=f"^EXECSRV_{field.upper()}: .*{text}"):
            options_of({f"EXECSRV_{field.upper()}": text})


def test_the_limits_are_the_fields_of_the_configuration() -> None:
    """So that there is a variable, and an option of the command line, for each."""
    assert list(LIMITS) == list(ExecServerConfig.__slots__)


def test_names_are_separated_by_blanks() -> None:
    """Of web pages and of hosts."""
    options = options_of({"EXECSRV_ALLOW_ORIGIN": "https://a.example  null", "EXECSRV_ALLOW_HOST": " box "})
    assert (options.allow_origins, options.allow_hosts) == (("https://a.example", "null"), ("box",))


@pytest.mark.parametrize("text, value", [("1", True), ("0", False)])
def test_a_flag_is_1_or_0(text: str, value: bool) -> None:
    """Nothing else, so that no word is taken for its opposite."""
    assert options_of({"EXECSRV_INSECURE_NO_AUTH": text}).insecure_no_auth is value
    for other in ("true", "no", "2"):
        with pytest.raises(OptionError, match="^EXECSRV_INSECURE_NO_AUTH"):
            options_of({"EXECSRV_INSECURE_NO_AUTH": other})
