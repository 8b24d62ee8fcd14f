"""The tokenizers of the tiny models that shapes.py makes: one of each family that models of others have."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

WORDS = "query passage text the cat sleeps on a mat who where does she work in berlin rent doubled last spring".split()
MARKS = list("abcdefghijklmnopqrstuvwxyz0123456789.,:;?!'-_")


def wordpiece() -> Tokenizer:
    """BERT: lower case, [PAD] is 0, a pair has two segments."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *MARKS, *(f"##{mark}" for mark in MARKS), *WORDS]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return finish(
        tokenizer, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    )


def byte_level() -> Tokenizer:
    """ModernBERT: BPE on bytes, a blank belongs to the word after it, special tokens at the end, one segment."""
    tokens = sorted(pre_tokenizers.ByteLevel.alphabet())
    letters = [(word[:end], word[end]) for word in WORDS for end in range(1, len(word))]
    merges = list(dict.fromkeys([*letters, *(("\u0120", word) for word in WORDS)]))
    tokens += ["".join(merge) for merge in merges]
    special = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys([*tokens, *special]))}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return finish(tokenizer, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", special)


def unigram() -> Tokenizer:
    """XLM-RoBERTa: Unigram, every word starts with a mark for the blank before it, <pad> is 1."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "\u2581", *MARKS, *(f"\u2581{word}" for word in WORDS)]
    scores = [(piece, 0.0 if piece.startswith("<") else -20.0 + len(piece)) for piece in pieces]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=3))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return finish(tokenizer, "<s> $A </s>", "<s> $A </s> </s> $B </s>", ("<s>", "<pad>", "</s>", "<unk>"))


def finish(tokenizer: Tokenizer, single: str, pair: str, special: tuple[str, ...]) -> Tokenizer:
    tokenizer.add_special_tokens(list(special))
    used = [token for token in special if token in pair]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(token, tokenizer.token_to_id(token)) for token in used]
    )
    return tokenizer
