"""The small byte-level vocabulary of the tiny models: 3 special tokens, 256 bytes, then a token a merge."""

import gguf
from transformers.convert_slow_tokenizer import bytes_to_unicode

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
N_BYTES = 256
# A G with a dot stands for the space byte, a C with a dot for the newline byte.
TINY_MERGES = ("Ġ t", "h e", "Ġ a", "i n", "r e", "Ġt he", "o n", "e r", "Ġ s", "a t", "Ġ w", "Ġ o", "e n", "i t",
               "o r", "i s", "Ġ b", "e s", "a n", "in g", "Ġ f", "o u", "Ġ c", "Ġa n", "Ġan d", "e d", "Ċ Ċ", "Ġ Ġ",
               "Ã ©", "Ġ p", "a l", "Ġo f", "Ġ in", "Ġt o", "l e", "Ġ m", "a r", "r o", "Ġ d", "Ġ h")
OTHER_MERGES = ("l l", "v e", "u r", "c h", "s t", "q u", "t h", "th e", "u l", "i v", "o l", "s h", "c k", "o w",
                "a y", "e t", "i c", "o m", "a s", "i l", "e l", "r i", "u s", "t i", "u n", "e a", "o t", "a c", "i g")
CHAT_TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a tiny random model<|im_end|>\n"
    "' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n"
    "'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def tiny_vocabulary(n_vocab, n_padding, merges):
    """(token texts, token types, merges) of n_vocab tokens and n_padding more that nothing encodes to."""
    n_merges = n_vocab - len(SPECIAL_TOKENS) - N_BYTES
    assert 0 <= n_merges <= len(merges)
    used = list(merges[:n_merges])
    tokens = list(SPECIAL_TOKENS) + list(bytes_to_unicode().values()) + [merge.replace(" ", "") for merge in used]
    tokens += [f"<|padding_{i}|>" for i in range(n_padding)]
    assert len(set(tokens)) == n_vocab + n_padding
    control, normal = int(gguf.TokenType.CONTROL), int(gguf.TokenType.NORMAL)
    types = [control] * len(SPECIAL_TOKENS) + [normal] * (N_BYTES + n_merges)
    return tokens, types + [int(gguf.TokenType.UNUSED)] * n_padding, used
