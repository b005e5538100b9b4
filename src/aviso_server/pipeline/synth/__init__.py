"""Realistic synthetic history, the same for the same arguments (docs/jobs/synth.md)."""

from aviso_server.pipeline.synth.generate import rows
from aviso_server.pipeline.synth.plan import BadPlan, Part, Plan, parts, tasks

__all__ = ["BadPlan", "Part", "Plan", "parts", "rows", "tasks"]
