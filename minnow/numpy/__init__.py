"""The names of numpy, for Vars: MNN's `numpy`.

Elementwise functions, reductions, and functions of shapes and axes may be part of a graph (`expr.lazy_eval`); all
others are computed at once. docs/express.md lists all names, and where results differ from numpy's.
"""

import math as math

from minnow.expr.names import keep_public
from minnow.numpy import linalg as linalg
from minnow.numpy import random as random
from minnow.numpy.creation import *
from minnow.numpy.elementwise import *
from minnow.numpy.index import *
from minnow.numpy.reduction import *
from minnow.numpy.shaping import *

keep_public(globals(), "numpy", "math", "linalg", "random")
