"""Orders, parts and estimates: the same answers as in every other language."""

import unittest

import libprefix
import numpy


class Ordering(unittest.TestCase):
    def check(self, found):
        self.assertEqual(found.rows.tolist(), [0, 2, 1])
        self.assertEqual(found.columns.tolist(), [[1, 0], [1, 0], [0, 1]])
        self.assertEqual((found.tokens, found.hit_before, found.hit), (13, 0, 4))

    def test_a_table_is_ordered(self):
        self.check(libprefix.order([[7, 5], [8, 6], [9, 5]], [[1, 4], [1, 2], [1, 4]]))
        self.check(libprefix.order_texts([("a", "Dune"), ("b", "It"), ("c", "Dune")]))
        self.assertEqual(libprefix.order([[7, 5], [9, 5]]).hit, 1)
        for values, lengths in (([], None), ([[]], None), ([[1]], [[-1]]), ([[1]], [[1 << 40]]), ([1, 2], None),
                                ([[1, 2]], [[1]])):
            with self.assertRaises(ValueError, msg=str(values)):
                libprefix.order(values, lengths)
        with self.assertRaises(ValueError):
            libprefix.order_texts([("a", "b"), ("a",)])
        with self.assertRaises(ValueError):
            libprefix.order_texts([])
        for rows, shown in ((["ab", "cd"], "row 0 is one str"), ([["a", "b"], ["a", None]], "cell 1 of row 1 is a NoneType, not a str")):
            with self.assertRaisesRegex(TypeError, shown):
                libprefix.order_texts(rows)

    def test_cells_that_differ_stay_different(self):
        nan, large = float("nan"), 1 << 53
        for values, equal in (([[1.2], [1.7]], False), ([[1.2], [1.2]], True), ([[0.5], [nan]], False), ([[nan], [nan]], True),
                              ([[0.5], [large], [large + 1]], False), ([[-1], [1 << 63]], False), ([[1 << 70], [1 << 71]], False),
                              (numpy.array([[1 << 63], [(1 << 63) + 1]], numpy.uint64), False),
                              (numpy.array([[1.25], [1.75]], numpy.float32), False), (numpy.array([[1], [1.0]], object), True),
                              ([[True], [False]], False)):
            with self.subTest(values):
                self.assertEqual(libprefix.order(values).hit, int(equal))
        self.assertEqual(libprefix.order([[1.2, 5], [1.7, 5], [1.2, 6]]).rows.tolist(),
                         libprefix.order([[1, 5], [2, 5], [1, 6]]).rows.tolist())
        for wrong in (["a"], [None]):
            with self.assertRaisesRegex(TypeError, f"value {wrong[0]!r} is not a number"):
                libprefix.order([[1], wrong])

    def test_lengths_are_whole_numbers_of_32_bits(self):
        for wrong, error, shown in ((1.9, TypeError, "length 1.9"), ("1", TypeError, "length '1'"), (-1, ValueError, "-1 tokens"),
                                    (5 - (1 << 32), ValueError, "-4294967291 tokens"), (1 << 31, ValueError, "2147483648 tokens"),
                                    (1 << 64, ValueError, "18446744073709551616 tokens")):
            for lengths in ([[1], [wrong]], numpy.array([[0], [wrong]], object)):
                with self.assertRaisesRegex(error, shown):
                    libprefix.order([[1], [2]], lengths)
        with self.assertRaisesRegex(TypeError, "length True"):
            libprefix.order([[1], [2]], [[True], [True]])
        self.assertEqual(libprefix.order([[1], [2]], numpy.array([[3], [0]], numpy.uint8)).tokens, 3)

    def test_prompts_are_shared_out(self):
        prompts = [[1, 2, 3], [7, 8, 9], [1, 2, 4], [7, 8, 6]]
        found = libprefix.partition(prompts, 2)
        self.assertEqual(found.part.tolist(), [0, 1, 0, 1])
        self.assertEqual(found.order.tolist(), [0, 2, 3, 1])
        self.assertEqual(found.work.tolist(), [4, 4])
        self.assertEqual((found.tokens, found.distinct, found.computed, found.largest), (12, 8, 8, 4))
        for parts, balance in ((0, 0), (-1, 0), ((1 << 20) + 1, 0), (2, 0.5)):
            with self.assertRaises(ValueError, msg=str(parts)):
                libprefix.partition(prompts, parts, balance)
        self.assertEqual(libprefix.partition([], 2).part.tolist(), [])

    def test_a_batch_is_estimated(self):
        found = libprefix.estimate_batch([[1, 2], [1, 3], [4, 5], []])
        self.assertEqual(found.computed.tolist(), [2, 1, 2, 0])
        self.assertEqual((found.tokens, found.total), (6, 5))
        self.assertEqual(libprefix.estimate_batch([]).tokens, 0)


if __name__ == "__main__":
    unittest.main()
