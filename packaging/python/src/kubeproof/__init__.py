"""An in-memory Kubernetes API server with simulated nodes and controllers, for tests.

``Kubeproof`` runs a server for as long as a ``with`` block. The pytest plugin, which is active as soon as the package is
installed, has fixtures for the server, for a namespace of each test and for the usual clients.
"""

from ._control import Control, ControlError
from ._program import ProgramNotFound, find_program
from ._server import Kubeproof, StartError

__all__ = ["Control", "ControlError", "Kubeproof", "ProgramNotFound", "StartError", "find_program"]
