"""Tensors (`Var`) and functions of them, computed at once or as a graph (`lazy_eval`): MNN's `expr`.

from minnow import expr
x = expr.placeholder([1, 3, 224, 224])
y = expr.relu(x * 2 - 1)
x.write(image)
y.read()
"""

from minnow.expr.activation import *
from minnow.expr.casting import *
from minnow.expr.constant import *
from minnow.expr.control import *
from minnow.expr.creation import *
from minnow.expr.detection import *
from minnow.expr.dtype import dtype as dtype
from minnow.expr.elementwise import *
from minnow.expr.evaluation import *
from minnow.expr.executor import *
from minnow.expr.file import *
from minnow.expr.layout import *
from minnow.expr.movement import *
from minnow.expr.names import constant, keep_public
from minnow.expr.neural import *
from minnow.expr.operation import apply as apply
from minnow.expr.reduction import *
from minnow.expr.var import *

float = constant("expr", "float", dtype.float, like="numpy.float32")
double = constant("expr", "double", dtype.double, like="numpy.float64")
int = constant("expr", "int", dtype.int, like="numpy.int32")
int64 = constant("expr", "int64", dtype.int64, like="numpy.int64")
uint8 = constant("expr", "uint8", dtype.uint8, like="numpy.uint8")
int8 = constant("expr", "int8", dtype.int8, like="numpy.int8")

keep_public(globals(), "expr", "apply", "evaluate", "graph_and_values", "graph_of", "vars_of")
