"""Studies: recipes as data, run row by row into results, tables and figures. The paper's study is one of them.

recipe -> plan (rows grouped into programs) -> run -> results -> tables and figures. What does not live here:
how one model is trained or judged.
"""

from wgfinn.studies.recipes import Recipe, Scale, load_recipe, recipe_names
from wgfinn.studies.reproduction import Event, Watcher, reproduce, reproduce_all
from wgfinn.studies.results import MemberResult, RowResult, StudyResult
from wgfinn.studies.theory import reproduce_theory

__all__ = [
    "Event",
    "MemberResult",
    "Recipe",
    "RowResult",
    "Scale",
    "StudyResult",
    "Watcher",
    "load_recipe",
    "recipe_names",
    "reproduce",
    "reproduce_all",
    "reproduce_theory",
]
