#!/usr/bin/env python3
"""Writes a small GGUF model with random weights: a mixture of experts (qwen3moe), or one with a sliding window (gemma3).

Usage: tiny_model.py moe|swa FILE
The numbers mean nothing; what is asked of such a model is whether its logits move.
"""
import array
import random
import struct
import sys

VOCABULARY, WIDTH, HEADS, KV_HEADS, HEAD, LAYERS, HIDDEN = 4096, 256, 4, 2, 64, 4, 512
EXPERTS, EXPERTS_USED, EXPERT_HIDDEN, WINDOW = 8, 2, 256, 256
# ggml's number of a type, bytes of a block of 32, and the RMS of its integers when all bits are random.
TYPES = {"q4_0": (2, 18, 4.6), "q5_0": (6, 22, 9.2), "q8_0": (8, 34, 73.9)}
U32, I32, F32, STRING, ARRAY, ALIGNMENT = 4, 5, 6, 8, 9, 32
random_bits = random.Random(1)


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value_of(value):
    """The type's number and the bytes of a metadata value."""
    if isinstance(value, str):
        return STRING, text(value)
    if isinstance(value, float):
        return F32, struct.pack("<f", value)
    if isinstance(value, list):
        kind = I32 if isinstance(value[0], int) else value_of(value[0])[0]
        return ARRAY, struct.pack("<IQ", kind, len(value)) + b"".join(value_of(v)[1] for v in value)
    return U32, struct.pack("<I", value)


def quantised(kind, rows, columns):
    """Random blocks whose weights have an RMS of 1 / sqrt(columns)."""
    _, size, rms = TYPES[kind]
    scale = struct.pack("<e", 1 / (rms * columns**0.5))
    return b"".join(scale + random_bits.randbytes(size - 2) for _ in range(rows * columns // 32))


def floats(count, mean, deviation):
    return array.array("f", (random_bits.gauss(mean, deviation) for _ in range(count))).tobytes()


def tokens():
    """Bytes, letters and pairs of letters, for a tokeniser that falls back to bytes; the rest is never used."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [start + a + b for start in ("\u2581", "") for a in letters for b in ("", *letters)]
    plain = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + words
    names = plain + [f"[{i}]" for i in range(len(plain), VOCABULARY)]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259)
    return names, kinds


def metadata(kind):
    name = {"moe": "qwen3moe", "swa": "gemma3"}[kind]
    names, kinds = tokens()
    own = {"context_length": 4096, "embedding_length": WIDTH, "block_count": LAYERS, "feed_forward_length": HIDDEN,
           "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD,
           "attention.value_length": HEAD, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6,
           "rope.dimension_count": HEAD}
    if kind == "moe":
        own |= {"expert_count": EXPERTS, "expert_used_count": EXPERTS_USED,
                "expert_feed_forward_length": EXPERT_HIDDEN}
    else:
        own["attention.sliding_window"] = WINDOW
    tokenizer = {"model": "llama", "pre": "default", "tokens": names, "scores": [-float(i) for i in range(VOCABULARY)],
                 "token_type": kinds, "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
    return ({"general.architecture": name, "general.name": f"tiny {kind}"} | {f"{name}.{k}": v for k, v in own.items()} |
            {f"tokenizer.ggml.{k}": v for k, v in tokenizer.items()})


def tensors(kind):
    """Name, type and shape, the innermost dimension first."""
    yield "token_embd.weight", "q8_0", (WIDTH, VOCABULARY)
    yield "output_norm.weight", "norm", (WIDTH,)
    for layer in range(LAYERS):
        parts = {"attn_norm": ("norm", WIDTH), "ffn_norm": ("norm", WIDTH), "attn_q": ("q4_0", WIDTH, HEADS * HEAD),
                 "attn_k": ("q8_0", WIDTH, KV_HEADS * HEAD), "attn_v": ("q8_0", WIDTH, KV_HEADS * HEAD),
                 "attn_output": ("q4_0", HEADS * HEAD, WIDTH), "attn_q_norm": ("norm", HEAD),
                 "attn_k_norm": ("norm", HEAD)}
        if kind == "moe":
            parts |= {"ffn_gate_inp": ("f32", WIDTH, EXPERTS), "ffn_gate_exps": ("q4_0", WIDTH, EXPERT_HIDDEN, EXPERTS),
                      "ffn_up_exps": ("q8_0", WIDTH, EXPERT_HIDDEN, EXPERTS),
                      "ffn_down_exps": ("q5_0", EXPERT_HIDDEN, WIDTH, EXPERTS)}
        else:
            parts |= {"post_attention_norm": ("norm", WIDTH), "post_ffw_norm": ("norm", WIDTH),
                      "ffn_gate": ("q4_0", WIDTH, HIDDEN), "ffn_up": ("q4_0", WIDTH, HIDDEN),
                      "ffn_down": ("q8_0", HIDDEN, WIDTH)}
        for name, (weights, *shape) in parts.items():
            yield f"blk.{layer}.{name}.weight", weights, tuple(shape)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("moe", "swa"):
        sys.exit(__doc__)
    kind, path = sys.argv[1:]
    entries, data = [], b""
    for name, weights, shape in tensors(kind):
        count = 1
        for size in shape:
            count *= size
        number = TYPES[weights][0] if weights in TYPES else 0
        entries.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, len(data)))
        if weights in TYPES:
            data += quantised(weights, count // shape[0], shape[0])
        else:
            data += floats(count, 1.0 if weights == "norm" else 0.0, 0.1 if weights == "norm" else shape[0] ** -0.5)
        data += bytes(-len(data) % ALIGNMENT)
    values = metadata(kind)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(entries), len(values))
    for key, value in values.items():
        number, encoded = value_of(value)
        head += text(key) + struct.pack("<I", number) + encoded
    head += b"".join(entries)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % ALIGNMENT) + data)


if __name__ == "__main__":
    main()
