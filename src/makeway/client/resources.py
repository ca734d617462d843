"""The kinds that Makeway reads and writes, as every server names them."""

from makeway.api.kinds import BUDGETS as BUDGETS
from makeway.api.kinds import CHECKS as CHECKS
from makeway.api.kinds import COHORTS as COHORTS
from makeway.api.kinds import EVENTS as EVENTS
from makeway.api.kinds import FLAVORS as FLAVORS
from makeway.api.kinds import GANG_WORKLOADS as GANG_WORKLOADS
from makeway.api.kinds import GANGS as GANGS
from makeway.api.kinds import JOBS as JOBS
from makeway.api.kinds import LEASES as LEASES
from makeway.api.kinds import LOCAL_QUEUES as LOCAL_QUEUES
from makeway.api.kinds import NAMESPACES as NAMESPACES
from makeway.api.kinds import NODES as NODES
from makeway.api.kinds import POD_GROUPS as POD_GROUPS
from makeway.api.kinds import PODS as PODS
from makeway.api.kinds import PRIORITY_CLASSES as PRIORITY_CLASSES
from makeway.api.kinds import QUEUES as QUEUES
from makeway.api.kinds import WORKLOAD_CLASSES as WORKLOAD_CLASSES
from makeway.api.kinds import WORKLOADS as WORKLOADS
