#!/usr/bin/env python3
"""Fits the blend: the probability that a row answers the question, from what a recall knows of it.

usage: blend.py OUT.json CANDIDATES.jsonl... [--rows 8] [--any-embedder]

blend_candidates.py writes the candidates from a database, one line per question and memory:
  {"set": "a", "group": "conversation 1", "query": "q1", "kind": "answerable", "evidence": 2, "size": "whole",
   "candidates": [{"id": "r7", "label": 1, "logit": -3.2 or null, "features": {...}}, ...]}
`evidence` is the number of labelled rows of the question, found or not. `kind` is `answerable`; `absent` and
`elsewhere` for questions whose answer is not in the memory, because it was cut out or because the memory is another
one; `adversarial` questions are not used. `size` is `whole` for a conversation, else the number of its rows.
`features` are those of `memory_explain`.

What is fitted (crates/core/src/rank/blend.rs has the sums):
  the row: its advantage over the best of its list, and how well that one fits. One loss for the order, the cross
    entropy of a softmax over the candidates of whole memories, and one for the probability, the cross entropy of each
    row in memories of every size. Each set has the same weight, and in the second loss each size.
  words: the same second loss for rows as they are before they have an embedding.
  read: both losses again, for rows that a cross-encoder read: over their log odds, their logits, how far those lie
    behind the best logit of the list, and the number of rows that they were chosen from.
With --any-embedder, for which the candidates of several are given, the row knows cosines by their places between the
least and the best alone.
Four of five questions are taken to have an answer. Everything measured leaves a fifth of the conversations of each set
out, and once more a set as a whole. Needs numpy and scipy.
"""
import argparse
import json
from collections import defaultdict

import numpy as np
from scipy.optimize import minimize

# The advantage of a row, and what counts beside it.
ADVANTAGE = ["gap", "lexical_relative", "session_fit", "long", "other_speaker", "out_of_time", "newest_session_by_size"]
ABSOLUTE = ["similarity", "lexical_share"]
LEVEL = ["scope_size"]
WORDS = ["lexical_relative", "lexical_share", "long", "other_speaker", "out_of_time", "scope_size", "query_size"]
READ = ["log_odds", "logit", "behind", "behind_by_size", "scope_size"]
# Longer queries are not read.
LONGEST_READ = 1.0
# Of the rows of a question as many count, the best by their fused scores.
ROWS = 40
# The share of questions that have an answer.
ANSWERABLE = 0.8
DISCOUNT = 1 / np.log2(np.arange(10) + 2)


class Query:
    def __init__(self, line, any_embedder):
        self.set, self.group, self.kind, self.evidence, self.size = (
            line[key] for key in ("set", "group", "kind", "evidence", "size"))
        rows = line["candidates"]
        self.y = np.array([row["label"] for row in rows], float)
        self.logit = np.array([np.nan if row["logit"] is None else row["logit"] for row in rows])
        names = [name for name in rows[0]["features"] if name != "similarity"]
        value = {name: np.array([row["features"][name] for row in rows], float) for name in names}
        found = [row["features"]["similarity"] for row in rows]
        value["similarity"] = np.array([-1 if one is None else one for one in found])
        value["newest_session_by_size"] = value["newest_session"] * value["query_size"]
        if any_embedder:
            value["gap"], value["similarity"] = value["gap_share"], np.zeros(len(rows))
        self.value = value
        self.row = np.column_stack([value[name] for name in ADVANTAGE + ABSOLUTE])
        self.query_size = value["query_size"][0]
        self.level = np.array([value[name][0] for name in LEVEL])
        self.words = np.column_stack([value[name] for name in WORDS])
        self.has_words = value["lexical_share"] > 0

    @property
    def has_answer(self):
        return self.kind == "answerable"


def read(paths, any_embedder):
    for path in paths:
        with open(path) as file:
            for line in file:
                line = json.loads(line)
                if line["candidates"] and line["kind"] != "adversarial":
                    yield Query(line, any_embedder)


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -30, 30)))


def shares(queries, whole_only=False):
    """The weight of each question: sets alike, sizes alike, and as many with an answer as are taken to have one."""
    count = defaultdict(int)
    key = lambda q: (q.set, q.size, q.has_answer)
    for query in queries:
        count[key(query)] += 1
    sets, sizes = len({k[0] for k in count}), len({k[1] for k in count})
    return np.array([(ANSWERABLE if q.has_answer else 1 - ANSWERABLE) / count[key(q)] / sets / sizes for q in queries])


def fit_row(queries, scale, penalty=3e-3):
    """The weights of the row. `scale` is the deviation of each number, the same for all fits."""
    x = np.vstack([q.row[:ROWS] for q in queries]) / scale
    y = np.concatenate([q.y[:ROWS] for q in queries])
    count = np.array([len(q.y[:ROWS]) for q in queries])
    start, of = np.r_[0, np.cumsum(count)[:-1]], np.repeat(np.arange(len(queries)), count)
    level = np.array([q.level for q in queries])
    level_scale = level.std(0) + 1e-9
    level = level / level_scale
    share = shares(queries)[of] / 10
    found = np.add.reduceat(y, start)
    ordered = np.array([q.size == "whole" and q.has_answer for q in queries]) & (found > 0)
    of_set = defaultdict(int)
    for query, counts in zip(queries, ordered):
        of_set[query.set] += counts
    order_share = np.array([counts / max(1, of_set[q.set]) / len(of_set) for q, counts in zip(queries, ordered)])[of]
    target = y / np.maximum(found, 1)[of]
    n, parts = x.shape[1], len(ADVANTAGE)

    def loss(b):
        w, intercept, of_level = b[:n], b[n], b[n + 1:]
        score, advantage = x @ w, x[:, :parts] @ w[:parts]
        exponential = np.exp(score - np.maximum.reduceat(score, start)[of])
        p = exponential / np.add.reduceat(exponential, start)[of]
        total = -(order_share * target * np.log(p + 1e-300)).sum()
        gradient = -(x.T @ (order_share * (target - p)))
        best = np.maximum.reduceat(advantage, start)
        is_best = np.flatnonzero(advantage == best[of])[::-1]
        first = np.zeros(len(start), int)
        first[of[is_best]] = is_best
        odds = score - best[of] + intercept + (level @ of_level)[of]
        total += (share * (np.logaddexp(0, odds) - y * odds)).sum()
        error = share * (sigmoid(odds) - y)
        by_query = np.add.reduceat(error, start)
        gradient += x.T @ error
        gradient[:parts] -= x[first, :parts].T @ by_query
        return total + penalty * (w @ w) / 2, np.r_[gradient + penalty * w, error.sum(), level.T @ by_query]

    b = minimize(loss, np.r_[np.zeros(n), -2, np.zeros(len(LEVEL))], jac=True, method="L-BFGS-B",
                 options={"maxiter": 500}).x
    return {"weights": b[:n] / scale, "intercept": b[n], "level": b[n + 1:] / level_scale}


def log_odds(model, query):
    parts = len(ADVANTAGE)
    advantage = query.row[:, :parts] @ model["weights"][:parts]
    absolute = query.row[:, parts:] @ model["weights"][parts:]
    return model["intercept"] + advantage - advantage.max() + absolute + query.level @ model["level"]


def logistic(x, y, weight, penalty):
    """Penalised logistic regression by Newton steps on standardised columns; returns the raw scale."""
    mean, deviation = x.mean(0), x.std(0)
    deviation[deviation < 1e-9] = 1
    z = np.column_stack([(x - mean) / deviation, np.ones(len(x))])
    ridge = np.eye(z.shape[1]) * penalty
    ridge[-1, -1] = 0
    b = np.zeros(z.shape[1])
    for _ in range(30):
        p = sigmoid(z @ b)
        step = np.linalg.solve((z * (weight * p * (1 - p))[:, None]).T @ z + ridge, z.T @ (weight * (y - p)) - ridge @ b)
        b = b + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-7:
            break
    weights = b[:-1] / deviation
    return {"weights": weights, "intercept": b[-1] - weights @ mean}


def fit_words(queries):
    queries = [q for q in queries if q.has_words.any()]
    share = shares(queries)
    rows = [np.flatnonzero(q.has_words)[:ROWS] for q in queries]
    return logistic(np.vstack([q.words[r] for q, r in zip(queries, rows)]),
                    np.concatenate([q.y[r] for q, r in zip(queries, rows)]),
                    np.repeat(share, [len(r) for r in rows]) * len(queries) / 10, 1.0)


def rows_read(query, odds, rows):
    """Which rows the cross-encoder reads: the best by their log odds."""
    if query.query_size >= LONGEST_READ:
        return np.array([], int)
    best = np.argsort(-odds, kind="stable")[:rows]
    return best[np.isfinite(query.logit[best])]


def numbers_read(query, odds, rows):
    logit = query.logit[rows]
    behind = logit.max() - logit
    size = np.full(len(rows), query.value["scope_size"][0])
    return np.column_stack([odds[rows], logit, behind, behind * query.query_size, size])


def fit_read(queries, odds, rows, penalty=1e-2):
    """The weights of a row that was read, by the same two losses as those of the row. In the first the rows that were
    not read keep their log odds: a row that was read has to take its place among them too."""
    chosen = [(q, r) for q in queries if len(r := rows_read(q, odds[id(q)], rows))]
    queries = [q for q, _ in chosen]
    x = [numbers_read(q, odds[id(q)], r) for q, r in chosen]
    scale = np.vstack(x).std(0) + 1e-9
    count = np.array([len(r) for _, r in chosen])
    of = np.repeat(np.arange(len(chosen)), count)
    x = np.column_stack([np.vstack(x) / scale, np.ones(len(of))])
    y = np.concatenate([q.y[r] for q, r in chosen])
    share = shares(queries)[of] / rows
    # The rows of the softmax: all of the question, those that were read at the places of `x`.
    whole = [i for i, q in enumerate(queries) if q.size == "whole" and q.has_answer and q.y[:ROWS].any()]
    start_of_x = np.r_[0, np.cumsum(count)[:-1]]
    counts, parts, place, target = [], [], [], []
    of_set = defaultdict(int)
    for i in whole:
        q, r = chosen[i]
        used = np.union1d(np.arange(min(ROWS, len(q.y))), r)
        at = np.full(len(q.y), -1)
        at[r] = start_of_x[i] + np.arange(len(r))
        counts.append(len(used)), parts.append(odds[id(q)][used]), place.append(at[used])
        target.append(q.y[used] / q.y[used].sum())
        of_set[q.set] += 1
    counts, fixed, place, target = np.array(counts), np.concatenate(parts), np.concatenate(place), np.concatenate(target)
    start, of_whole = np.r_[0, np.cumsum(counts)[:-1]], np.repeat(np.arange(len(whole)), counts)
    order_share = np.array([1 / of_set[queries[i].set] / len(of_set) for i in whole])[of_whole]
    was_read = place >= 0
    read_x = x[place[was_read]]

    def loss(b):
        score = fixed.copy()
        score[was_read] = read_x @ b
        exponential = np.exp(score - np.maximum.reduceat(score, start)[of_whole])
        p = exponential / np.add.reduceat(exponential, start)[of_whole]
        total = -(order_share * target * np.log(p + 1e-300)).sum()
        gradient = -(read_x.T @ (order_share * (target - p))[was_read])
        z = x @ b
        total += (share * (np.logaddexp(0, z) - y * z)).sum()
        gradient += x.T @ (share * (sigmoid(z) - y))
        ridge = np.r_[b[:-1], 0]
        return total + penalty * (ridge @ ridge) / 2, gradient + penalty * ridge

    b = minimize(loss, np.zeros(x.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
    return {"weights": b[:-1] / scale, "intercept": b[-1]}


def probability(query, odds, model, rows):
    p = sigmoid(odds)
    if model is not None and len(r := rows_read(query, odds, rows)):
        p[r] = sigmoid(numbers_read(query, odds, r) @ model["weights"] + model["intercept"])
    return p


def quality(query, score):
    relevant = np.zeros(10)
    best = query.y[np.argsort(-score, kind="stable")][:10]
    relevant[:len(best)] = best
    return [relevant[:5].sum() / query.evidence,
            (relevant * DISCOUNT).sum() / DISCOUNT[:min(10, query.evidence)].sum()]


def calibration_error(p, y, bins=15):
    order = np.argsort(p)
    return sum(len(part) / len(p) * abs(p[part].mean() - y[part].mean()) for part in np.array_split(order, bins))


def area(positive, negative):
    return float(np.mean([(np.sum(p > negative) + np.sum(p == negative) / 2) / len(negative) for p in positive]))


def interval(difference):
    draws = np.random.default_rng(0).integers(0, len(difference), (2000, len(difference)))
    return [float(x) for x in np.percentile(difference[draws].mean(1), [2.5, 97.5])]


def report(queries, probabilities):
    """R@5 and nDCG@10 beside those of the single arms, and how far the probabilities can be trusted."""
    out = {}
    for name in sorted({q.set for q in queries}):
        mine = [q for q in queries if q.set == name and q.size == "whole" and q.has_answer]
        values = lambda score: np.array([quality(q, score(q)) for q in mine])
        ours = values(lambda q: probabilities[id(q)])
        arms = {"dense": values(lambda q: q.value["similarity"]), "dense with neighbours": values(lambda q: -q.value["gap"]),
                "BM25": values(lambda q: q.value["lexical_relative"])}
        out[name] = {"questions": len(mine), "blend": ours.mean(0), "a perfect order": values(lambda q: q.y).mean(0)}
        for arm, value in arms.items():
            out[name][arm] = {"is": value.mean(0), "R@5 of the blend over it": interval((ours - value)[:, 0])}
    for size in sorted({str(q.size) for q in queries}):
        mine = [q for q in queries if str(q.size) == size]
        best = lambda kind: np.array([probabilities[id(q)].max() for q in mine if q.kind == kind])
        answerable, threshold = best("answerable"), np.percentile(best("answerable"), 10)
        order = [np.argsort(-probabilities[id(q)], kind="stable")[:10] for q in mine]
        row = {"calibration error": calibration_error(
            np.concatenate([probabilities[id(q)][o] for q, o in zip(mine, order)]),
            np.concatenate([q.y[o] for q, o in zip(mine, order)])), "threshold that keeps 90 %": float(threshold)}
        for kind in sorted({q.kind for q in mine} - {"answerable"}):
            row[kind] = {"area": area(answerable, best(kind)), "refused": float((best(kind) < threshold).mean())}
        out[f"size {size}"] = row
    return out


def left_out(queries, part, scale, rows):
    """The probabilities of all questions, each by a fit without its part: log odds alone, and with the rows read."""
    odds, plain, with_logits = {}, {}, {}
    parts = sorted({part(q) for q in queries}, key=str)
    for name in parts:
        model = fit_row([q for q in queries if part(q) != name], scale)
        odds.update((id(q), log_odds(model, q)) for q in queries if part(q) == name)
    has_logits = any(np.isfinite(q.logit).any() for q in queries)
    for name in parts:
        model = fit_read([q for q in queries if part(q) != name], odds, rows) if has_logits else None
        for query in (q for q in queries if part(q) == name):
            plain[id(query)] = sigmoid(odds[id(query)])
            with_logits[id(query)] = probability(query, odds[id(query)], model, rows)
    return {"no row read": plain, f"{rows} rows read": with_logits} if has_logits else {"no row read": plain}


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("out")
    arguments.add_argument("candidates", nargs="+")
    arguments.add_argument("--rows", type=int, default=8, help="rows that the cross-encoder reads")
    arguments.add_argument("--any-embedder", action="store_true", help="weights for embedders that are not known")
    arguments = arguments.parse_args()
    queries = list(read(arguments.candidates, arguments.any_embedder))
    groups = {name: sorted({q.group for q in queries if q.set == name}) for name in {q.set for q in queries}}
    fold = lambda query: groups[query.set].index(query.group) % 5
    scale = np.vstack([q.row for q in queries if q.size == "whole"]).std(0) + 1e-9
    measured = {}
    for title, part in (("conversations left out", fold), ("sets left out", lambda q: q.set)):
        for name, probabilities in left_out(queries, part, scale, arguments.rows).items():
            measured[f"{title}, {name}"] = report(queries, probabilities)
    row = fit_row(queries, scale)
    odds = {id(q): log_odds(row, q) for q in queries}
    words = fit_words(queries)
    named = lambda names, weights: {name: round(float(w), 4) for name, w in zip(names, weights)}
    out = {"row": {"intercept": round(float(row["intercept"]), 4), **named(ADVANTAGE + ABSOLUTE, row["weights"]),
                   **named(LEVEL, row["level"])},
           "words": {"intercept": round(float(words["intercept"]), 4), **named(WORDS, words["weights"])}}
    if any(np.isfinite(q.logit).any() for q in queries):
        of_read = fit_read(queries, odds, arguments.rows)
        out["read"] = {"intercept": round(float(of_read["intercept"]), 4), **named(READ, of_read["weights"])}
    out["measured"] = measured
    plain = lambda x: [round(float(v), 4) for v in x] if isinstance(x, np.ndarray) else round(float(x), 4)
    with open(arguments.out, "w") as file:
        json.dump(out, file, indent=1, default=plain)
    for title, of_title in measured.items():
        print(title)
        for name, one in of_title.items():
            print("  ", name, json.dumps(one, default=plain))


if __name__ == "__main__":
    main()
