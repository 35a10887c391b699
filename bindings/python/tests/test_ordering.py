"""Orders, parts and estimates: the same answers as in every other language."""

import unittest

import libprefix


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
