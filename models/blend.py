#!/usr/bin/env python3
"""Fits the blend: the probability that a row answers the question, from what a recall knows of it.

usage: blend.py CANDIDATES.jsonl OUT.json [--depth 8] [--depths 0,4,8,12] [--l2 3]

blend_candidates.py writes these from a database. One line per question and candidate:
  {"set": "a", "group": "conversation 1", "query": "q1", "kind": "answerable", "evidence": 2,
   "id": "r7", "label": 1, "logit": -3.2 or null, "features": {...}}
`evidence` is the number of labelled rows of the question, found or not. `kind` is `answerable`, or any other word for
questions that the memory cannot answer; those are not fitted, only measured. `features` has the names of BASE.

Two logistic regressions: `unscored` for rows without a logit orders all candidates and says which the reranker reads;
`scored` is for the rows that it read. Both predict the same label, so their probabilities are comparable. Each set has
half the weight (rows weigh 1 / rows of their set). Everything measured leaves one conversation of each set out.
Needs numpy only.
"""
import argparse
import json
from collections import defaultdict

import numpy as np

BASE = ["similarity", "gap", "lexical_share", "lexical_relative", "recency", "query_size", "other_speaker", "in_time",
        "out_of_time", "session", "session_fit", "newest_session", "length"]
UNSCORED = ["similarity", "gap", "lexical_share", "recency", "recency_by_size", "query_size", "other_speaker",
            "in_time", "out_of_time", "session", "session_fit", "newest_session", "newest_by_size", "length"]
SCORED = ["gap", "lexical_relative", "recency", "recency_by_size", "query_size", "other_speaker", "in_time",
          "session_fit", "newest_session", "newest_by_size", "length", "logit", "logit_above_minus_4", "logit_by_size"]
DISCOUNT = 1 / np.log2(np.arange(10) + 2)


class Query:
    def __init__(self, lines):
        first = lines[0]
        self.set, self.group, self.kind, self.evidence = (first[k] for k in ("set", "group", "kind", "evidence"))
        self.y = np.array([line["label"] for line in lines], float)
        self.logit = np.array([np.nan if line["logit"] is None else line["logit"] for line in lines])
        value = {name: np.array([line["features"][name] for line in lines], float) for name in BASE}
        value["recency_by_size"] = value["recency"] * value["query_size"]
        value["newest_by_size"] = value["newest_session"] * value["query_size"]
        value["logit"] = np.nan_to_num(self.logit, nan=-11.5)
        value["logit_above_minus_4"] = np.maximum(value["logit"] + 4, 0)
        value["logit_by_size"] = value["logit"] * value["query_size"]
        self.unscored = np.column_stack([value[name] for name in UNSCORED])
        self.scored = np.column_stack([value[name] for name in SCORED])


def read(path):
    lines = defaultdict(list)
    with open(path) as file:
        for line in file:
            line = json.loads(line)
            lines[line["set"], line["kind"], line["query"]].append(line)
    return [Query(rows) for rows in lines.values()]


def fit(x, y, weight, l2):
    """Penalised logistic regression by Newton steps on standardised columns; returns the raw scale."""
    mean, deviation = x.mean(0), x.std(0)
    deviation[deviation < 1e-9] = 1
    z = np.column_stack([(x - mean) / deviation, np.ones(len(x))])
    penalty = np.eye(z.shape[1]) * l2
    penalty[-1, -1] = 0
    b = np.zeros(z.shape[1])
    b[-1] = np.log(y.mean() / (1 - y.mean()))

    def loss(b):
        return (weight * (np.logaddexp(0, z @ b) - y * (z @ b))).sum() + b @ penalty @ b / 2

    for _ in range(50):
        p = sigmoid(z @ b)
        gradient = z.T @ (weight * (y - p)) - penalty @ b
        step = np.linalg.solve((z * (weight * p * (1 - p))[:, None]).T @ z + penalty, gradient)
        size = 1.0
        while size > 1e-4 and loss(b + size * step) > loss(b) + 1e-9:
            size /= 2
        b = b + size * step
        if np.abs(size * step).max() < 1e-6:
            break
    weights = b[:-1] / deviation
    return {"weights": weights, "intercept": b[-1] - weights @ mean, "standard": b[:-1], "mean": mean,
            "deviation": deviation}


def sigmoid(x):
    return 1 / (1 + np.exp(-np.clip(x, -30, 30)))


def apply(model, x):
    return sigmoid(x @ model["weights"] + model["intercept"])


def set_weights(queries):
    count = defaultdict(int)
    for query in queries:
        count[query.set] += 1
    return np.array([len(queries) / len(count) / count[query.set] for query in queries])


def fit_unscored(queries, l2, pool=40):
    """On the best `pool` rows of each question as a first fit orders them, for these are what has to be ordered."""
    weight = set_weights(queries)
    take = [np.arange(len(query.y)) for query in queries]
    for _ in range(2):
        model = fit(np.vstack([q.unscored[t] for q, t in zip(queries, take)]),
                    np.concatenate([q.y[t] for q, t in zip(queries, take)]),
                    np.repeat(weight, [len(t) for t in take]), l2)
        take = [np.argsort(-apply(model, q.unscored), kind="stable")[:pool] for q in queries]
    return model


def seen(query, unscored, depth):
    """Which rows the reranker reads: the best `depth` of the unscored head."""
    mask = np.zeros(len(query.y), bool)
    mask[np.argsort(-apply(unscored, query.unscored), kind="stable")[:depth]] = True
    return mask & np.isfinite(query.logit)


def fit_scored(queries, unscored, depth, l2):
    mask = [seen(query, unscored, depth) for query in queries]
    return fit(np.vstack([q.scored[m] for q, m in zip(queries, mask)]),
               np.concatenate([q.y[m] for q, m in zip(queries, mask)]),
               np.repeat(set_weights(queries), [m.sum() for m in mask]), l2)


def probability(query, unscored, scored, depth):
    p = apply(unscored, query.unscored)
    if depth:
        mask = seen(query, unscored, depth)
        p[mask] = apply(scored, query.scored[mask])
    return p


def quality(query, p):
    relevant = np.zeros(10)
    best = query.y[np.argsort(-p, kind="stable")][:10]
    relevant[:len(best)] = best
    return [relevant[:5].sum() / query.evidence, relevant.sum() / query.evidence,
            (relevant * DISCOUNT).sum() / DISCOUNT[:min(10, query.evidence)].sum()]


def calibration_error(p, y, bins=15):
    order = np.argsort(p)
    return sum(len(part) / len(p) * abs(p[part].mean() - y[part].mean()) for part in np.array_split(order, bins))


def area(positive, negative):
    return np.mean([(np.sum(p > negative) + np.sum(p == negative) / 2) / len(negative) for p in positive])


def interval(difference):
    draws = np.random.default_rng(0).integers(0, len(difference), (2000, len(difference)))
    return np.percentile(difference[draws].mean(1), [2.5, 97.5])


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("candidates")
    arguments.add_argument("out")
    arguments.add_argument("--depth", type=int, default=8, help="rows that the reranker reads, for the weights written")
    arguments.add_argument("--depths", default="0,4,8,12", help="depths to measure")
    arguments.add_argument("--l2", type=float, default=3.0)
    arguments = arguments.parse_args()
    everything = read(arguments.candidates)
    answerable = [query for query in everything if query.kind == "answerable"]
    sets = sorted({query.set for query in answerable})
    fold = {}
    for name in sets:
        for index, group in enumerate(sorted({query.group for query in answerable if query.set == name})):
            fold[name, group] = index
    folds = sorted(set(fold.values()))
    fold_of = lambda query: fold[query.set, query.group]
    unscored = {f: fit_unscored([q for q in answerable if fold_of(q) != f], arguments.l2) for f in folds}
    report, base = {}, None
    for depth in [int(d) for d in arguments.depths.split(",")]:
        # At a depth, only questions whose logits are there.
        complete = lambda q: np.isfinite(q.logit).sum() and seen(q, unscored[fold_of(q)], depth).sum() >= min(
            depth, len(q.y)) - max(1, depth // 6) if depth else True
        chosen = [q for q in everything if complete(q)]
        train = [q for q in chosen if q.kind == "answerable"]
        scored = {f: fit_scored([q for q in train if fold_of(q) != f], unscored[f], depth, arguments.l2)
                  for f in folds} if depth else {f: None for f in folds}
        for name in sets:
            mine = [q for q in train if q.set == name]
            p = [probability(q, unscored[fold_of(q)], scored[fold_of(q)], depth) for q in mine]
            without = [apply(unscored[fold_of(q)], q.unscored) for q in mine]
            value = np.array([quality(q, x) for q, x in zip(mine, p)])
            base = np.array([quality(q, x) for q, x in zip(mine, without)])
            order = [np.argsort(-x, kind="stable")[:10] for x in p]
            gain = {f"{name} against depth 0": [(value - base)[:, at].mean(), *interval((value - base)[:, at])]
                    for name, at in (("R@5", 0), ("nDCG@10", 2))}
            row = {"questions": len(mine), "R@5": value[:, 0].mean(), "R@10": value[:, 1].mean(),
                   "nDCG@10": value[:, 2].mean(), **gain,
                   "calibration error": calibration_error(np.concatenate([x[o] for x, o in zip(p, order)]),
                                                          np.concatenate([q.y[o] for q, o in zip(mine, order)]))}
            best = np.array([x.max() for x in p])
            for kind in sorted({q.kind for q in everything if q.set == name} - {"answerable"}):
                other = [probability(q, unscored[fold_of(q)], scored[fold_of(q)], depth).max()
                         for q in chosen if q.set == name and q.kind == kind]
                if not other:
                    continue
                other = np.array(other)
                row[f"area, {kind}"] = area(best, other)
                row[f"at threshold, {kind}"] = {
                    str(t): [float((best >= t).mean().round(3)), float((other >= t).mean().round(3))]
                    for t in (.02, .03, .05, .07, .1, .15, .2, .3)}
            kept = {}
            for t in (.02, .03, .05, .07, .1, .15, .2, .3):
                top = [o[:5] for o in order]
                found = sum(q.y[o].sum() for q, o in zip(mine, top))
                left = sum(q.y[o][x[o] >= t].sum() for q, o, x in zip(mine, top, p))
                rows = np.mean([(x[o] >= t).sum() for o, x in zip(top, p)])
                kept[str(t)] = [round(float(left / found), 3), round(float(rows), 2)]
            row["evidence kept of the best 5, rows left of 5"] = kept
            report[f"{name}, depth {depth}"] = row
            print(name, "depth", depth, json.dumps(row, default=lambda x: round(float(x), 4)))
    model_unscored = fit_unscored(answerable, arguments.l2)
    with_logits = [q for q in answerable if np.isfinite(q.logit).any()]
    model_scored = fit_scored(with_logits, model_unscored, arguments.depth, arguments.l2)

    def head(names, model):
        return {"intercept": float(model["intercept"]),
                "features": [{"name": n, "weight": float(w), "standardised_weight": float(s), "mean": float(m),
                              "deviation": float(d)} for n, w, s, m, d in
                             zip(names, model["weights"], model["standard"], model["mean"], model["deviation"])]}

    out = {"depth": arguments.depth, "unscored": head(UNSCORED, model_unscored), "scored": head(SCORED, model_scored),
           "measured": report}
    with open(arguments.out, "w") as file:
        json.dump(out, file, indent=1, default=lambda x: round(float(x), 4))


if __name__ == "__main__":
    main()
