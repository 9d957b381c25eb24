"""Attributes that are None or something else: lists that are linked, trees, caches."""

import sys

import jit_support
from jit_support import Case, define, run_alone

setUpModule = jit_support.load

NODES = """
    class Node:
        def __init__(self, value, next=None):
            self.value = value
            self.next = next
    class Slotted:
        __slots__ = ("value", "next")
        __init__ = Node.__init__
    def chain(count, kind=Node):
        head = None
        for number in range(count):
            head = kind(number, head)
        return head
"""
TREE = """
    class Node:
        def __init__(self, key):
            self.key = key
            self.left = None
            self.right = None
    class Tree:
        def __init__(self):
            self.root = None
            self.size = 0
        def insert(self, key):
            if self.root is None:
                self.root = Node(key)
                self.size += 1
                return
            node = self.root
            while True:
                if key < node.key:
                    if node.left is None:
                        node.left = Node(key)
                        self.size += 1
                        return
                    node = node.left
                elif key > node.key:
                    if node.right is None:
                        node.right = Node(key)
                        self.size += 1
                        return
                    node = node.right
                else:
                    return
        def has(self, key):
            node = self.root
            while node is not None:
                if key == node.key:
                    return True
                node = node.left if key < node.key else node.right
            return False
    def depth(node):
        if node is None:
            return 0
        return 1 + max(depth(node.left), depth(node.right))
"""


class NoneCase(Case):
    def left(self, function):
        """How often compiled code of a function was left for the interpreter, which was entered."""
        stats = self.jit.stats(function)
        self.assertGreater(stats.get("entered", 0), 0, self.jit.explain(function))
        return stats["left"]


class Linked(NoneCase):
    def test_a_loop_over_a_list_that_is_linked(self):
        for kind in ("Node", "Slotted"):
            for condition in ("node is not None", "node", "not node is None", "node != None"):
                with self.subTest(kind=kind, condition=condition):
                    made = self.running(NODES + f"""
    def f(count):
        total, node = 0, chain(count, {kind})
        while {condition}:
            total += node.value
            node = node.next
        return total, count
        """, 5000, times=3)
                    if "!=" not in condition:
                        self.assertLess(self.left(made.f), 5, self.jit.explain(made.f))

    def test_a_function_that_is_called_for_each_list(self):
        made = define(NODES + """
    def f(node):
        total = 0
        while node is not None:
            total += node.value
            node = node.next
        return total
        """)
        self.jit.enable()
        self.compiled(made.f, made.chain(3))
        for count in range(200):
            self.assertEqual(made.f(made.chain(count)), count * (count - 1) // 2)
        self.assertLess(self.left(made.f), 5, self.jit.explain(made.f))

    def test_a_list_is_reversed_and_merged(self):
        self.running(NODES + """
    def backwards(node):
        before = None
        while node is not None:
            following = node.next
            node.next = before
            before = node
            node = following
        return before
    def values(node):
        out = []
        while node is not None:
            out.append(node.value)
            node = node.next
        return out
    def f(count):
        head = chain(count)
        for _ in range(7):
            head = backwards(head)
        first = values(head)
        middle = head
        for _ in range(count // 2):
            middle = middle.next
        middle.next, rest = None, middle.next
        return first, values(head), values(rest)
        """, 3000, times=2)

    def test_none_on_both_sides_of_an_operator_and_in_calls(self):
        for use in ("total += node.next", "total += node.next.value", "node.next.value = 3", "total += node.next[0]", "node.next()", "node.next.value()",
                    "total += len(node.next)", "total -= -node.next", "total += node.next < node.next", "for item in node.next: total += item",
                    "total += abs(node.next)", "a, b = node.next", "node = node.next.next", "total += [1, 2][node.next]"):
            with self.subTest(use):
                self.running(NODES + f"""
    def f(count):
        total, node, last = 0, chain(count), 0
        try:
            while True:
                if node.next is None:
                    last += 1
                    {use}
                total += node.value
                node = node.next
        except (TypeError, AttributeError) as error:
            return total, last, type(error), str(error), error.__traceback__.tb_lineno
        """, 3000, times=2)

    def test_numbers_and_none(self):
        for values in ("[None, 1]", "[1, None]", "[0.5, None, 0.5]", "[None] * 3", "[True, None]", "[1, 2.5, None]", "['text', None, 1]", "[None, [1]]"):
            with self.subTest(values):
                self.running(NODES + f"""
    def f(count):
        values, total, nothing = {values}, 0, 0
        nodes = [Node(values[i % len(values)]) for i in range(12)]
        for turn in range(count):
            value = nodes[turn % 12].value
            if value is None:
                nothing += 1
            elif value == 1:
                total += 2
            nodes[(turn * 5) % 12].value = values[(turn // 7) % len(values)]
        return total, nothing, [node.value for node in nodes]
        """, 4000, times=2)

    def test_many_attributes_at_once(self):
        self.running("""
    class Many:
        def __init__(self, n):
            self.a = None if n & 1 else n
            self.b = None if n & 2 else n * 0.5
            self.c = None if n & 4 else [n]
            self.d = None if n & 8 else self
            self.e = None if n & 16 else (n, n)
    def f(count):
        all, total = [Many(n) for n in range(32)], 0
        for turn in range(count):
            one = all[turn * 7 % 32]
            a, b, c, d, e = one.a, one.b, one.c, one.d, one.e
            total += (a is None) + (b is None) * 2 + (c is None) * 4 + (d is None) * 8 + (e is None) * 16
            if a is not None and b is not None:
                total += a + b
            if c:
                total += c[0]
            if e is not None and d is not None:
                total += e[1] + len(e)
        return total
        """, 6000, times=2)

    def test_values_that_die_with_what_they_were_loaded_from(self):
        self.running(NODES + """
    def one(number):
        return Node(number, Node(-number) if number % 3 else None)
    def f(count):
        total, seen = 0, []
        for number in range(count):
            value = one(number).next
            if value is not None:
                total += value.value
                if number % 500 == 1:
                    seen.append(value)
        return total, [node.value for node in seen]
        """, 3000, times=2)

    def test_references(self):
        made = define(NODES + """
    def f(count):
        head = chain(20)
        for _ in range(count):
            node = head
            while node is not None:
                node = node.next
        return head
        """)
        self.jit.enable()
        none = sys.getrefcount(None)
        head = made.f(2000)
        node = head
        while node.next is not None:
            self.assertEqual(sys.getrefcount(node.next), 2)
            node = node.next
        self.assertEqual(sys.getrefcount(None), none)
        self.assertLess(self.left(made.f), 5, self.jit.explain(made.f))

    def test_generator_expressions(self):
        self.running(NODES + """
    def f(count):
        nodes = [Node(n, Node(n) if n % 2 else None) for n in range(9)]
        total = 0
        for _ in range(count):
            total += sum(node.value for node in nodes if node.next is not None)
            total += any(node.next is None for node in nodes)
        return total
        """, 400, times=3)


class Trees(NoneCase):
    def test_a_search_tree(self):
        made = self.running(TREE + """
    def f(count):
        tree, x = Tree(), 1
        for _ in range(count):
            x = (x * 1103515245 + 12345) % 2147483648
            tree.insert(x % 10_000)
        return tree.size, [key for key in range(200) if tree.has(key)], depth(tree.root)
        """, 3000, times=3)
        for function in (made.Tree.insert, made.Tree.has, made.depth):
            self.assertLess(self.left(function), 20, self.jit.explain(function))

    def test_a_recursion_over_a_tree(self):
        made = self.running("""
    class Tree:
        __slots__ = ("left", "right")
        def __init__(self, left, right):
            self.left, self.right = left, right
    def make(depth):
        if depth == 0:
            return Tree(None, None)
        return Tree(make(depth - 1), make(depth - 1))
    def check(tree):
        if tree.left is None:
            return 1
        return 1 + check(tree.left) + check(tree.right)
    def f(depth):
        return [check(make(depth)) for _ in range(6)]
        """, 8, times=3)
        self.assertLess(self.left(made.check), 20, self.jit.explain(made.check))

    def test_a_cache_that_is_filled_at_the_first_call(self):
        made = self.running("""
    class Cached:
        def __init__(self, n):
            self.n, self.value = n, None
        def get(self):
            if self.value is None:
                self.value = self.n * 0.5
            return self.value
    def f(count):
        all, total = [Cached(n) for n in range(100)], 0.0
        for turn in range(count):
            total += all[turn * 31 % 100].get()
        return total
        """, 5000, times=3)
        self.assertLess(self.left(made.f), 5, self.jit.explain(made.f))


class Surroundings(NoneCase):
    def test_a_class_that_changes_meanwhile(self):
        self.running(NODES + """
    def f(count):
        head, total = chain(10), 0
        for turn in range(count):
            node = head
            while node is not None:
                total += node.value
                if turn == count // 2 and node.value == 5:
                    Node.next = property(lambda self: None)
                node = node.next
            if turn == count // 2 + 3:
                del Node.next
        return total
        """, 1000, times=1)

    def test_a_tracer_sees_each_line(self):
        print_lines = run_alone(NODES.replace("\n    ", "\n") + """
import sys
def f(node):
    total = 0
    while node is not None:
        total += node.value
        node = node.next
    return total
for _ in range(3):
    f(chain(3000))
print(ferrule_jit.stats(f)["entered"] > 0)
lines = []
def trace(frame, event, argument):
    if frame.f_code is f.__code__:
        lines.append((event, frame.f_lineno - f.__code__.co_firstlineno))
        return trace
sys.settrace(trace)
f(chain(2))
sys.settrace(None)
print(lines)
""")
        turn = [("line", 3), ("line", 4)]
        expected = [("call", 0), ("line", 1), ("line", 2), *turn, ("line", 2), *turn, ("line", 2), ("line", 5), ("return", 5)]
        self.assertEqual(print_lines, f"True\n{expected}\n")

    def test_a_destructor_that_cuts_the_list(self):
        self.running(NODES + """
    class Dies:
        def __init__(self, node):
            self.node = node
        def __del__(self):
            self.node.next = None
    def f(count):
        total = 0
        for turn in range(count):
            head = chain(6)
            node = head
            if turn % 10 == 0:
                keeper = Dies(head.next.next)
            while node is not None:
                total += node.value
                if node.value == 4 and turn % 10 == 0:
                    keeper = None
                node = node.next
        return total
        """, 1500, times=2)


class Many(NoneCase):
    """Each combination of variables that are None or not is a version of its own: there are only so many."""

    def test_attributes(self):
        for number in (3, 9):
            attributes = range(number)
            made = self.running(f"""
    class Many:
        def __init__(self, n):
            {"; ".join(f"self.a{i} = None if n & {1 << i} else n" for i in attributes)}
    def f(count):
        all, total = [Many(n) for n in range({1 << number})], 0
        for turn in range(count):
            one = all[turn * 7 % {1 << number}]
            {"; ".join(f"v{i} = one.a{i}" for i in attributes)}
            {"; ".join(f"total += -1 if v{i} is None else v{i}" for i in attributes)}
        return total
        """, 4000, times=3)
            if number == 3:
                self.assertIsNone(self.jit.stats(made.f).get("refused"), self.jit.explain(made.f))
            self.assertNotIn("too many combinations", self.jit.explain(made.f))

    def test_functions_that_call_each_other(self):
        # Each call of one of them is another that is compiled for its caller.
        count = 6
        source = """
    class Node:
        def __init__(self, value, left=None, right=None):
            self.value, self.left, self.right = value, left, right
"""
        for number in range(count):
            calls = "".join(f"""
        found = f{(number * 7 + step * 3 + 1) % count}(left if depth % {step + 2} else right, depth - 1)
        if found is not None: total += found
        node.left, node.right = node.right, node.left""" for step in range(3))
            source += f"""
    def f{number}(node, depth):
        if node is None or depth <= 0: return None
        left, right, total = node.left, node.right, 0{calls}
        return {"total if total % 2 else None" if number % 3 else "node.value"}
"""
        plain, made = define(source), define(source)
        results = []
        for space in (plain, made):
            (self.jit.enable if space is made else self.jit.disable)()
            node = space.Node(1, space.Node(2, space.Node(3)), space.Node(4, None, space.Node(5)))
            node.left.left.right = node
            for depth in (1, 2, 3, 4):
                space.f0(node, depth)
            if space is made:
                self.jit.compile_at_next_call(space.f0)
            results.append([space.f0(node, depth) for depth in range(6)])
        self.assertEqual(results[1], results[0])
        self.assertIn("call each other", self.jit.explain(made.f0))


class Learned(NoneCase):
    SOURCE = """
    class C:
        def __init__(self, x):
            self.x = x
    def f(one, count):
        total = 0
        for i in range(count):
            if one.x is not None:
                total += i
        return total
    def g(one):
        total = 0
        for i in range(2):
            if one.x is None:
                total += 1
        return total
    """

    def test_by_another_function(self):
        made = define(self.SOURCE)
        self.jit.enable()
        self.compiled(made.f, made.C(1), 10)
        self.compiled(made.g, made.C(1))
        for value in (None, 1, None):
            made.g(made.C(value))
        for _ in range(200):
            self.assertEqual((made.f(made.C(None), 10), made.f(made.C(2), 10)), (0, 45))
        self.assertLess(self.left(made.f), 3, self.jit.explain(made.f))

    def test_beside_another_type(self):
        made = define(self.SOURCE)
        self.jit.enable()
        self.compiled(made.f, made.C(1), 10)
        for _ in range(100):
            self.assertEqual(made.f(made.C(1), 10), 45)
        self.assertEqual((made.f(made.C(None), 10), made.f(made.C("text"), 10)), (0, 45))
        for _ in range(100):
            self.assertEqual((made.f(made.C(1), 10), made.f(made.C(None), 10)), (45, 0))
        self.assertLess(self.left(made.f), 4, self.jit.explain(made.f))
