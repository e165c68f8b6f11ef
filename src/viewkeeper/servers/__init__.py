"""Real servers of stores on this machine's loopback, for users who want to try them and for tests.

- `cassandra`, `hbase`, `kafka`, `redis`   one store each: how it is started, and when it answers
- `server`           what all have: a folder, a port, `start`, `stop`, `kill -9`, a block at whose end they are stopped
- `server_process`   one process: started, watched, ended; who looks from elsewhere finds it by its locked file
- `lifeline`         why none outlives those for whom it runs
- `fetching`, `java` what a server is made of: jars, Debian's packages, a Java
- `ports`            free ones, and who has one that is not
"""

from viewkeeper.servers.cassandra import Cassandra
from viewkeeper.servers.hbase import HBase
from viewkeeper.servers.kafka import Kafka
from viewkeeper.servers.redis import Redis
from viewkeeper.servers.server import Server

KINDS: dict[str, type[Server]] = {kind.name: kind for kind in (Cassandra, HBase, Kafka, Redis)}
"""All of them by name."""
