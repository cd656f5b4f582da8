"""A Kafka cluster in a process of its own, which a test can stop. Prints its address."""

import sys

from streaming import KafkaCluster

cluster = KafkaCluster(**{"batch.num.messages": 50})
cluster.send(*[b"%05d" % i + b"x" * 95 for i in range(int(sys.argv[1]))])
sys.stdout.write(f"{cluster.hosts}\n")
sys.stdout.flush()
sys.stdin.read()  # until the test ends
