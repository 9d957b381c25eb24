"""Changes of real source: a seed makes a module another one, which still compiles.

    build/stock/python mutations.py FILE SEED          print what becomes of a file, by an interpreter that can read it
"""

import ast
import copy
import random
import sys
import warnings

COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot, ast.In, ast.NotIn)
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor)
# Not the ellipsis: its hash is its address, which the order of a set shows.
CONSTANTS = (0, 1, -1, 2, 255, 2**31, 2**64, 1.5, "", "a", b"b", None, True, False, ())
# What looks at frames, changes what runs, or leaves in another way. Each is one statement or several.
INTRUDERS = tuple(ast.parse(text).body for text in (
    "__import__('sys')._getframe().f_locals",
    "__import__('sys')._getframe().f_lineno",
    "__import__('sys')._getframe().f_back",
    "[__f.f_code.co_name for __f in __import__('inspect').getouterframes(__import__('sys')._getframe())[:0]]",
    "__import__('traceback').extract_stack()",
    "__import__('gc').collect(0)",
    "locals()",
    "(lambda: (yield))()",
    "list(__x for __x in range(3))",
    "[__x for __x in (lambda: range(3))()]",
    "try:\n    raise KeyError('intruder')\nexcept KeyError as __error:\n    __kept = __error.__traceback__.tb_frame",
    "try:\n    exec('def __f(n): return n and __f(n - 1)\\n__f(20)', {})\nexcept NameError:\n    pass",
    "__import__('sys').setrecursionlimit(__import__('sys').getrecursionlimit() + 1)",
    "class __Dies:\n    def __del__(self): __import__('sys')._getframe()\n__Dies()",
    "__import__('warnings').warn('intruder')",
    "__import__('types').FunctionType((lambda: 1).__code__.replace(co_name='other'), {})()",
))


class Mutator(ast.NodeTransformer):
    """Changes some of a tree's nodes, each with a chance of `rate`."""

    def __init__(self, random_, rate):
        self.random, self.rate = random_, rate
        self.changes = 0

    def strikes(self, share=1.0):
        if self.random.random() >= self.rate * share:
            return False
        self.changes += 1
        return True

    def visit_Compare(self, node):
        self.generic_visit(node)
        if self.strikes():
            node.ops = [self.random.choice(COMPARISONS)() for _ in node.ops]
        return node

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if self.strikes():
            if self.random.random() < 0.5:
                node.op = self.random.choice(OPERATORS)()
            else:
                node.left, node.right = node.right, node.left
        return node

    def visit_Constant(self, node):
        # Texts name files and modules, and occur in f-strings: what they become may be anything.
        if isinstance(node.value, (int, float)) and self.strikes(0.3):
            return ast.copy_location(ast.Constant(self.random.choice(CONSTANTS)), node)
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        if node.args and self.strikes(0.3):
            how = self.random.randrange(4)
            if how == 0:
                self.random.shuffle(node.args)
            elif how == 1:
                node.args.pop(self.random.randrange(len(node.args)))
            elif how == 2:
                node.args.append(copy.deepcopy(self.random.choice(node.args)))
            elif not any(isinstance(argument, ast.Starred) for argument in node.args):
                node.args = [ast.Starred(ast.List([*node.args], ast.Load()), ast.Load())]
        return node

    def visit_If(self, node):
        self.generic_visit(node)
        if self.strikes():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    def visit_Return(self, node):
        self.generic_visit(node)
        if node.value is not None and self.strikes(0.3):
            # As a frame that ends in another way.
            return [ast.Try([ast.Raise(ast.Call(ast.Name("ValueError", ast.Load()), [], []), None)],
                            [ast.ExceptHandler(ast.Name("ValueError", ast.Load()), None, [copy.deepcopy(node)])], [], [])]
        return node

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        body = []
        for statement in node.body:
            if self.strikes(0.5):
                body += copy.deepcopy(self.random.choice(INTRUDERS))
            if self.strikes(0.2):
                continue
            body.append(statement)
            if self.strikes(0.2):
                body.append(copy.deepcopy(statement))
        node.body = body or [ast.Pass()]
        return node


def mutate(source, seed):
    """(The changed source, how many changes.) None: no attempt compiled."""
    random_ = random.Random(seed)
    for _ in range(20):
        tree = ast.parse(source)
        mutator = Mutator(random_, random_.choice((0.005, 0.02, 0.05, 0.1)))
        tree = ast.fix_missing_locations(mutator.visit(tree))
        try:
            text = ast.unparse(tree)
            compile(text, "mutated", "exec")
        except (SyntaxError, ValueError, TypeError, RecursionError):
            continue
        if mutator.changes:
            return text, mutator.changes
    return None


if __name__ == "__main__":
    # What is odd in what comes out is meant to be.
    warnings.simplefilter("ignore")
    with open(sys.argv[1], encoding="utf-8") as file:
        made = mutate(file.read(), int(sys.argv[2]))
    if made is None:
        sys.exit("nothing that was tried compiles")
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogatepass")
    sys.stdout.write(made[0])
