"""Training: thousands of optimiser steps of all members of an ensemble as one compiled program."""

from wgfinn.training.checkpoint import beside_checkpoint, checkpoint_step, load_checkpoint, save_checkpoint
from wgfinn.training.interrupt import graceful_interrupt
from wgfinn.training.loop import MemberRecord, Observer, Record, compile_ahead, train
from wgfinn.training.optimisers import AbstractOptimiser, AdamW, GaussNewton, Soap, learning_rate, make_optimiser
from wgfinn.training.problem import Problem
from wgfinn.training.spec import OptimiserSpec, PolishSpec, TrainingSpec
from wgfinn.training.state import MemberSettings, StepInfo, TrainState, member, stack
from wgfinn.training.step import advance, check_starts, initial_state, initial_states, over_members, train_step
from wgfinn.training.structure import Structure, take_apart

__all__ = [
    "AbstractOptimiser",
    "AdamW",
    "GaussNewton",
    "MemberRecord",
    "MemberSettings",
    "Observer",
    "OptimiserSpec",
    "PolishSpec",
    "Problem",
    "Record",
    "Soap",
    "StepInfo",
    "Structure",
    "TrainState",
    "TrainingSpec",
    "advance",
    "beside_checkpoint",
    "check_starts",
    "checkpoint_step",
    "compile_ahead",
    "graceful_interrupt",
    "initial_state",
    "initial_states",
    "learning_rate",
    "load_checkpoint",
    "make_optimiser",
    "member",
    "over_members",
    "save_checkpoint",
    "stack",
    "take_apart",
    "train",
    "train_step",
]
