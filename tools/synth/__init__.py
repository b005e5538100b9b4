"""Realistic synthetic history, the same for the same arguments (docs/synth.md)."""

from tools.synth.generate import rows
from tools.synth.plan import BadPlan, Part, Plan, parts, tasks

__all__ = ["BadPlan", "Part", "Plan", "parts", "rows", "tasks"]
