#!/usr/bin/env python3
"""Tests of what goes into training and of what comes out: python3 models/training/test_training.py

They need what run.py needs, but no data: the lists are made from a few invented dialogues.
"""

from __future__ import annotations

import contextlib
import copy
import pathlib
import random
import tempfile
import unittest
from unittest import mock

import numpy as np
import torch
from tokenizers import Tokenizer

import conversations
import embedder_data
import lessons
import lists
import memories
import pairs
import speed
import student
import teacher
import third_person
import train
import train_embedder
import weights

TEACHER = pathlib.Path(__file__).resolve().parent.parent / "ms-marco-MiniLM-L-12-v2"
EMBEDDER = TEACHER.parent / "bge-small-en-v1.5"
PLACES = ("Lisbon", "Oslo", "Cairo", "Lima", "Hanoi")


def dialogue(number: int) -> conversations.Dialogue:
    """A chat of ten turns with one fact and one labelled question."""
    turns = []
    for turn in range(10):
        place = PLACES[(number + turn) % len(PLACES)]
        turns.append((turn % 2, f"I visited {place} with my sister number {number} and we liked the old town {turn}."))
    question = conversations.Question("Which city did {0} choose?", "slot", [4], [0])
    return conversations.Dialogue("sgd", turns, ["{0} lives in Rome."], [question], [(0, "I live in Rome.")])


class Rules(unittest.TestCase):
    def test_questions_name_the_speaker_and_use_the_infinitive(self):
        asked = third_person.questions("I visited the museum in Oslo last week.", "Ana", "Ben", random.Random(1))
        self.assertTrue(any(question.startswith("When did Ana visit the museum") for question in asked), asked)

    def test_infinitives(self):
        forms = """
            visited:visit loved:love liked:like needed:need decided:decide stopped:stop tried:try played:play went:go
            created:create remembered:remember shared:share danced:dance watched:watch hated:hate prepared:prepare
            hiked:hike smoked:smoke looked:look noted:note deleted:delete rated:rate waited:wait started:start
            treated:treat targeted:target edited:edit invited:invite promoted:promote asked:ask joked:joke
        """
        for pair in forms.split():
            past, infinitive = pair.split(":")
            self.assertEqual(third_person.base_form(past), infinitive)

    def test_statements_are_put_in_the_third_person(self):
        self.assertEqual(third_person.statement("I love my two dogs.", "Ana"), "Ana loves their two dogs.")
        self.assertEqual(third_person.statement("I am a nurse.", "Ana"), "Ana is a nurse.")
        self.assertIsNone(third_person.statement("The weather is nice.", "Ana"))

    def test_joined_turns_keep_their_labels(self):
        turns, position_of = memories.joined(dialogue(1))
        self.assertLess(len(turns), 10)
        for (speaker, text), position in zip(dialogue(1).turns, position_of):
            self.assertEqual(turns[position][0], speaker)
            self.assertIn(text, turns[position][1])

    def test_labelled_rows_are_the_dialogue_s(self):
        builder = memories.Builder("sgd", random.Random(2))
        for number in range(3):
            builder.add(dialogue(number))
        slots = [query for query in builder.memory.queries if query.kind == "slot"]
        for query in slots:
            texts = [builder.memory.rows[row] for row in query.relevant]
            self.assertEqual(len(texts), 2)
            self.assertTrue(texts[1].endswith("lives in Rome."))


    def test_a_question_about_a_sentence_keeps_it_as_its_origin(self):
        asked = [("Berlin is large.", "What is large?"), ("Berlin is large.", "How is Berlin?"), ("Rome is old.", "What is old?")]
        (told,) = conversations.told("nqg", iter(asked))
        self.assertEqual([turn for _, turn in told.turns], ["Berlin is large.", "Rome is old."])
        builder = memories.Builder("nqg", random.Random(2))
        builder.add(told)
        found = [query for query in builder.memory.queries if query.kind == "about_turn"]
        self.assertEqual([(query.text, query.relevant, query.origin) for query in found], [
            ("What is large?", [], 0), ("How is Berlin?", [], 0), ("What is old?", [], 1)
        ])

    def test_phrases_are_words_of_the_turn(self):
        builder = memories.Builder("spc", random.Random(4))
        text = "I visited the old museum in Oslo with my sister."
        for _ in range(20):
            words = builder.phrase(text, "Ana").removeprefix("Ana ").split()
            self.assertTrue(3 <= len(words) <= 5)
            self.assertIn(" ".join(words), text.lower())

    def test_rows_are_the_best_and_some_of_the_next(self):
        """All rows have the word, the first ones most often; the last ones are nearest."""
        rows = ["ski " * (120 - row) + "trip" for row in range(120)]
        query = memories.Query("ski", "made", [])
        near = list(range(120))[::-1][: lists.BEST + lists.NEXT_OF]
        words = lists.Lexical(rows).best("ski", lists.BEST + lists.NEXT_OF)
        chosen = lists.rows_of(query, [words, near], list(range(120)), set(range(120)), random.Random(1))
        self.assertEqual(chosen[: 2 * lists.BEST], words[: lists.BEST] + near[: lists.BEST])
        for found, first in ((words, 2 * lists.BEST), (near, 2 * lists.BEST + lists.NEXT)):
            self.assertLessEqual(set(chosen[first : first + lists.NEXT]), set(found[lists.BEST :]))
        self.assertEqual(len(set(chosen)), lists.LENGTH)


class Losses(unittest.TestCase):
    def test_an_error_on_a_good_row_counts_more(self):
        teachers = torch.tensor([[6.0, -2.0, -8.0, -8.0]])
        none, made = torch.full((1, 4), -1), torch.zeros(1)
        good, bad = teachers.clone(), teachers.clone()
        good[0, 0] -= 1
        bad[0, 2] -= 1
        losses = [float(train.list_loss(z, teachers, none, made)) for z in (teachers, bad, good)]
        self.assertAlmostEqual(losses[0], 0, places=5)
        self.assertGreater(losses[2], 2 * losses[1])

    def test_hidden_states_are_compared_after_normalisation(self):
        mine, other = torch.randn(2, 5, 384, generator=torch.Generator().manual_seed(1)).chunk(2)
        real = torch.tensor([[True, True, True, False, False]])
        found = train.hidden_loss([3 * mine + 1], [teacher.normalised(other)], real)
        expected = (teacher.normalised(mine) - teacher.normalised(other))[:, :3].square().mean()
        self.assertAlmostEqual(float(found), float(expected), places=3)


class Lists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = pathlib.Path(cls.folder.name)
        readers = conversations.READERS
        conversations.READERS = {"sgd": lambda _: (dialogue(number) for number in range(80))}
        try:
            lists.build(cls.data, TEACHER / "tokenizer.json")
        finally:
            conversations.READERS = readers
        cls.lists = pairs.Lists(cls.data, "cpu")
        cls.tokenizer = Tokenizer.from_file(str(TEACHER / "tokenizer.json"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def text(self, number: int) -> str:
        first, end = self.lists.offsets[number : number + 2].tolist()
        return self.tokenizer.decode(self.lists.tokens[first:end].tolist())

    def test_pairs_are_what_the_tokenizer_gives(self):
        numbers = torch.arange(4)
        query = self.lists.query[numbers].repeat_interleave(self.lists.length)
        rows = self.lists.rows[numbers].reshape(-1)
        for part, (ids, types, real) in self.lists.parts(self.lists.query[numbers], self.lists.rows[numbers], 512):
            for at, position in enumerate(part.tolist()):
                expected = self.tokenizer.encode(self.text(query[position]), self.text(rows[position]))
                length = int(real[at].sum())
                self.assertEqual(ids[at, :length].tolist(), expected.ids)
                self.assertEqual(types[at, :length].tolist(), expected.type_ids)

    def test_the_longest_part_is_truncated_first(self):
        row, end = torch.tensor([0]), len(self.lists.listed) - 1
        first, second = self.lists.lengths(row, row, torch.tensor([end]))
        self.assertEqual(int(first + second) + 3, pairs.MOST_TOKENS)
        self.assertEqual(int(first), len(self.tokenizer.encode(self.text(0), add_special_tokens=False).ids))

    def test_words_are_exchanged_alike_in_a_list(self):
        numbers = torch.arange(6)
        seeds = torch.tensor([0, 2**31 - 2, 1234567891, 987654321, 192837465, 2046121021])
        query, rows = self.lists.query[numbers], self.lists.rows[numbers]
        straight, exchanged = (self.lists.parts(query, rows, 512, seeds=given) for given in (None, seeds))
        meant: dict[tuple[int, int], int] = {}
        for (part, (ids, _, real)), (_, (others, _, _)) in zip(straight, exchanged, strict=True):
            for at, position in enumerate(part.tolist()):
                number = position // self.lists.length
                for before, after in zip(ids[at][real[at]].tolist(), others[at][real[at]].tolist(), strict=True):
                    self.assertEqual(meant.setdefault((number, before), after), after)
                    self.assertTrue(before == after or number > 0 and before >= pairs.FIRST_RARE)
                    self.assertTrue(pairs.FIRST_WORD <= after < pairs.VOCABULARY or before == after)
        changed = sum(before != after for (_, before), after in meant.items())
        self.assertGreater(changed, 0)
        self.assertLess(changed, len(meant) / 2)

    def test_any_of_the_rarer_tokens_may_be_exchanged(self):
        ids = torch.arange(pairs.FIRST_RARE, pairs.VOCABULARY)
        seeds = torch.randint(1, pairs.PRIME, (40,), generator=torch.Generator().manual_seed(2))
        for seed in seeds:
            chosen = pairs.exchanged(ids[None], seed[None])[0] != ids
            for quarter in chosen.chunk(4):
                self.assertAlmostEqual(float(quarter.float().mean()), pairs.EXCHANGED, delta=0.05)

    def test_rows_drawn_anew_are_of_the_memory_and_listed(self):
        numbers = torch.arange(8)
        rows = self.lists.any_rows(numbers, 50, torch.Generator().manual_seed(1))
        self.assertTrue(self.lists.listed[rows].all())
        arrays = np.load(self.data / "lists.npz")
        bases = np.unique(arrays["base"])
        memory = np.searchsorted(bases, rows.numpy(), side="right") - 1
        self.assertTrue((bases[memory] == arrays["base"][:8, None]).all())

    def test_parts_are_full_and_hardly_padded(self):
        lengths = sorted(random.Random(3).choices(range(5, 300), k=200))
        start = 0
        for size in pairs.sizes(lengths, 1024):
            part = [length + 3 for length in lengths[start : start + size]]
            self.assertTrue(size == 1 or size * part[-1] <= 1024)
            self.assertGreaterEqual(part[0], part[-1] * (1 - pairs.MOST_PADDING["cpu"]))
            start += size
        self.assertEqual(start, len(lengths))

    def test_lessons_come_in_the_same_order_whoever_is_faster(self):
        def numbered(count: int):
            yield from range(count)

        straight = lessons.repeated(numbered(40), 2, [1])
        beside = lessons.repeated(lessons.ahead(numbered(40)), 2, [1])
        first = [next(straight) for _ in range(40)]
        self.assertEqual(first, [next(beside) for _ in range(40)])
        self.assertEqual(max(first.count(number) for number in first), 2)
        beside.close()

    def test_the_teacher_says_the_same_in_pytorch(self):
        """The one for a GPU, on the CPU."""
        ids, types, real = next(batch for _, batch in self.lists.parts(self.lists.query[:1], self.lists.rows[:1], 512))
        graph, layers = TEACHER / "model.onnx", [3, 7, 11]
        logits, hidden = teacher.InRuntime(graph, layers)(ids, types, real)
        other_logits, other_hidden = teacher.InTorch(graph, layers, "cpu")(ids, types, real)
        self.assertLess(float((logits - other_logits).abs().max()), 0.3)
        for mine, other in zip(hidden, other_hidden, strict=True):
            self.assertEqual(mine.shape, other.shape)
            inside = real[:, : mine.shape[1]]
            self.assertLess(float((mine.float() - other.float())[inside].square().mean()), 0.02)

    def test_one_step_on_what_the_teacher_says(self):
        options = train.Options(
            [0, 11], inner=768, steps=1, batch=1, part=512, rate=1e-4, passes=1, device="cpu", seed=1, validated=0
        )
        trainer = train.Trainer(self.data, self.data / "run", TEACHER / "model.onnx", options)
        before = trainer.model.classifier.weight.clone()
        trainer.run()
        self.assertTrue((self.data / "run/checkpoint.pt").exists())
        self.assertFalse(torch.equal(before, trainer.model.classifier.weight))
        for kept, computing in zip(trainer.trained, trainer.computing, strict=True):
            self.assertEqual(kept.dtype, torch.float32)
            self.assertTrue(torch.equal(kept.to(computing.dtype), computing))
        trainer.held_lessons = [trainer.maker.as_stored(torch.tensor([0]))]
        self.assertTrue(student.onnx_file(trainer.model.eval(), trainer.inputs()))


    def test_training_goes_on_from_a_shipped_model(self):
        small = TEACHER.parent / "memory-rerank-small"
        options = train.Options(
            [0, 11], inner=768, steps=1, batch=1, part=512, rate=1e-4, passes=1, device="cpu", seed=1, validated=0,
            start=str(small),
        )
        trainer = train.Trainer(self.data, self.data / "on", TEACHER / "model.onnx", options)
        self.assertEqual([layer.intermediate.out_features for layer in trainer.model.layers], [768, 768, 768, 1536])
        expected = student.read_shipped(small / "model.onnx").classifier.weight
        self.assertTrue(torch.equal(trainer.model.classifier.weight, expected))
        trainer.run()
        self.assertFalse(torch.equal(trainer.model.classifier.weight, expected))

    def maker(self, held: bool = False) -> embedder_data.Maker:
        """A maker of units with a mixture that these lists have, and a teacher that likes Lisbon."""
        texts = embedder_data.Texts(self.lists, self.tokenizer.encode("Find: ", add_special_tokens=False).ids)
        lisbon = self.tokenizer.token_to_id("lisbon")
        return embedder_data.Maker(
            texts,
            EMBEDDER / "model.onnx",
            lambda ids, types, real: ((ids == lisbon).any(dim=1) * 10.0 - 5, []),
            self.data / "units",
            held,
            1,
        )

    def test_texts_are_what_the_tokenizer_gives(self):
        texts = self.maker().texts
        ids, real = texts.batch(torch.tensor([0, 5]), torch.tensor([1, 2]), prefixed=True)
        expected = (f"Find: {self.text(0)}", f"Find: {self.text(5)} {self.text(6)}")
        for line, text in enumerate(expected):
            self.assertEqual(ids[line, : int(real[line].sum())].tolist(), self.tokenizer.encode(text).ids)

    def test_a_unit_has_the_teacher_s_logits_and_the_embedder_learns_from_them(self):
        mixture, embedder_data.MIXTURE = embedder_data.MIXTURE, {"chats": 0, "meetings": 0, "tasks": 1, "sentences": 0}
        try:
            maker = self.maker()
        finally:
            embedder_data.MIXTURE = mixture
        path = maker.fresh()
        self.assertEqual(path, maker.one(0))
        unit = train_embedder.narrowed(torch.load(path))
        texts = [
            " ".join(self.text(number) for number in range(row, row + span))
            for row, span in zip(unit["row"].tolist(), unit["span"].tolist())
        ]
        for query, chosen, logits in zip(unit["query"].tolist(), unit["chosen"], unit["logit"]):
            for at, logit in zip(chosen[chosen >= 0].tolist(), logits[chosen >= 0].tolist()):
                if logit == logit:
                    self.assertEqual(logit > 0, "lisbon" in f"{self.text(query)} {texts[at]}")
        goal, weight = train_embedder.goal(unit)
        self.assertTrue(torch.allclose(goal.sum(dim=1)[weight > 0], torch.ones(int((weight > 0).sum())), atol=1e-4))
        options = train_embedder.Options(minutes=1e-6, rate=1e-4, frozen=11, seed=1)
        trainer = train_embedder.Trainer(EMBEDDER / "model.onnx", maker, [], self.data / "embedder", options)
        before = [layer.output.weight.clone() for layer in trainer.model.layers[-2:]]
        trainer.run()
        after = train_embedder.read_checkpoint(self.data / "embedder/checkpoint.pt", EMBEDDER / "model.onnx")
        after = [layer.output.weight for layer in after.layers[-2:]]
        self.assertTrue(torch.equal(before[0], after[0]))
        self.assertFalse(torch.equal(before[1], after[1]))
        self.check_devices(trainer, unit)

    def check_devices(self, trainer: train_embedder.Trainer, unit: dict) -> None:
        """Of a step's loss: on the device "meta", which has no values, tensors of two devices fail as on a GPU."""
        texts = trainer.texts = copy.copy(trainer.texts)
        lists = texts.lists = copy.copy(texts.lists)
        trainer.device = lists.device = "meta"
        lists.tokens, texts.prefix = lists.tokens.to("meta"), texts.prefix.to("meta")
        trainer.model, trainer.scale = trainer.model.to("meta"), trainer.scale.to("meta")
        with mock.patch("train.mixed", lambda device: contextlib.nullcontext()):
            for value in trainer.loss(unit):
                self.assertEqual(value.device.type, "meta")


class Graph(unittest.TestCase):
    def test_an_embedder_is_read_and_written(self):
        model = student.read_shipped(EMBEDDER / "model.onnx").eval()
        encoding = Tokenizer.from_file(str(EMBEDDER / "tokenizer.json")).encode("Ana lives in Rome.")
        ids = torch.tensor([encoding.ids])
        with torch.no_grad():
            expected = model(ids, ids >= 0)[0].numpy()
        feed = {"input_ids": ids.numpy(), "token_type_ids": ids.numpy() * 0, "attention_mask": ids.numpy() * 0 + 1}
        for graph in (str(EMBEDDER / "model.onnx"), student.onnx_file(model)):
            found = speed.session(graph, 1).run(None, feed)[0][0, 0]
            self.assertGreater(float(found @ expected / np.linalg.norm(found)), 0.995)

    def test_rounding_for_known_inputs_loses_less(self):
        source = np.random.default_rng(5)
        weight = source.normal(size=(32, 16)).astype(np.float32)
        inputs = source.normal(size=(400, 8)) @ source.normal(size=(8, 32)) + 0.1 * source.normal(size=(400, 32))
        plain = weights.quantize_linear(weight, np.zeros(16, np.float32))
        chosen = weights.quantize_for(inputs.T @ inputs, weight, np.zeros(16, np.float32))
        loss = [np.square(inputs @ (linear.dequantized() - weight)).sum() for linear in (plain, chosen)]
        self.assertLess(loss[1], loss[0] / 2)
        self.assertLessEqual(np.abs(chosen.weight.astype(int)).max(), weights.WEIGHT_LIMIT)

    def test_a_narrower_layer_keeps_the_neurons_with_the_largest_weights(self):
        layer = student.Layer(12, 6)
        with torch.no_grad():
            layer.intermediate.weight[[1, 3, 4]] *= 100
        layer.output.weight.data[:, 4] *= 0.0001
        state = student.narrowed(layer, 2)
        self.assertTrue(torch.equal(state["intermediate.weight"], layer.intermediate.weight[[1, 3]]))
        self.assertTrue(torch.equal(state["intermediate.bias"], layer.intermediate.bias[[1, 3]]))
        self.assertTrue(torch.equal(state["output.weight"], layer.output.weight[:, [1, 3]]))

    def test_weights_are_mixed(self):
        models = [student.read_shipped(EMBEDDER / "model.onnx") for _ in range(2)]
        first = models[0].layers[0].output.weight
        with torch.no_grad():
            models[1].layers[0].output.weight.add_(1)
        expected = first.detach() + 0.25
        mixed = train_embedder.mixed(*models, 0.25)
        self.assertTrue(torch.allclose(mixed.layers[0].output.weight, expected, atol=1e-5))

    def test_the_graph_computes_what_the_model_does(self):
        teacher = student.read_shipped(TEACHER / "model.onnx").eval()
        cut = student.from_teacher(teacher, [0, 1], 768)
        self.assertEqual([layer.intermediate.out_features for layer in cut.layers], [768, 1536])
        file = student.onnx_file(cut)
        session = speed.session(file, 1)
        encoding = Tokenizer.from_file(str(TEACHER / "tokenizer.json")).encode("Where does Ana live?", "Ana: In Rome.")
        ids, types = torch.tensor([encoding.ids]), torch.tensor([encoding.type_ids])
        with torch.no_grad():
            expected = float(cut(ids, types, ids >= 0)[0])
        mask = np.ones_like(ids.numpy())
        feed = {"input_ids": ids.numpy(), "token_type_ids": types.numpy(), "attention_mask": mask}
        alone = session.run(None, feed)[0][0, 0]
        self.assertAlmostEqual(float(alone), expected, delta=0.15)
        for padding in range(1, 12):
            padded = {name: np.pad(values, ((0, 0), (0, padding))) for name, values in feed.items()}
            self.assertEqual(session.run(None, padded)[0][0, 0], alone)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            path.write_bytes(file)
            with torch.no_grad():
                again = float(student.read_shipped(path).eval()(ids, types, ids >= 0)[0])
        self.assertAlmostEqual(again, expected, delta=0.15)


if __name__ == "__main__":
    unittest.main()
