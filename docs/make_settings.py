"""Write `docs/settings.md` from the settings themselves: `python docs/make_settings.py`."""

from pathlib import Path
from typing import Any, get_args

from wgfinn import FitSpec
from wgfinn._spec import Spec

HEAD = """# Settings of a fit

Every key of the TOML file for `wgfinn fit --config FILE.toml`, and of `WGFINN(settings={...})`, which takes the same
keys nested. Unknown keys are refused. Made by `python docs/make_settings.py`.

```toml
method = "weak"

[model]
layers = 4
width = 20
entropy = "affine"

[test_functions]
width = 80
degree = 4
overlap = 0.9

[training]
steps = 20000
members = 5
```

| key | default | |
|---|---|---|
"""


def rows(spec: type[Spec], prefix: str = "", default: Spec | None = None) -> list[str]:
    lines = []
    for name, field in spec.model_fields.items():
        value = field.default if default is None else getattr(default, name)
        inner = next((a for a in (field.annotation, *get_args(field.annotation)) if _is_spec(a)), None)
        if inner is not None and not isinstance(value, str):  # a word, or a form in its place, is one key
            if field.description:
                lines.append(f"| `[{prefix}{name}]` | | {field.description} |")
            lines += rows(inner, f"{prefix}{name}.", value)
        else:
            choices = [a for a in get_args(field.annotation) if isinstance(a, str)]
            words = (field.description or "") + (f" ({', '.join(choices)})" if choices else "")
            lines.append(f"| `{prefix}{name}` | {_shown(value)} | {words} |")
    return lines


def _is_spec(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Spec)


def _shown(default: Any) -> str:
    return "" if default is None else f"`{default}`"


def page() -> str:
    return HEAD + "\n".join(rows(FitSpec)) + "\n"


if __name__ == "__main__":
    (Path(__file__).parent / "settings.md").write_text(page(), encoding="utf-8")
