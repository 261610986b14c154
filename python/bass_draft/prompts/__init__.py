"""The prompts whose answers a draft learns from: written for this, none is taken from a benchmark."""

from bass_draft.prompts.generator import Prompt, PromptGenerator
from bass_draft.prompts.prompt_file import named_in_errors, read_prompt_file

__all__ = ["Prompt", "PromptGenerator", "named_in_errors", "read_prompt_file"]
