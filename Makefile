# Headrace. `make` or `make help` lists what there is.
PY := .venv/bin/python
SHELL := /bin/bash
# Each test process imports every test file, which takes a third of the time once they are compiled.
unexport PYTHONDONTWRITEBYTECODE
# Much of a test run is waiting for brokers and clients: three processes keep two cores busy.
PYTEST := $(PY) -m pytest -n $(or $(TEST_PROCESSES),3) --dist loadfile
# CPU time of all that a run started, beside the clock's: a loaded machine changes only the latter.
MEASURED := TIMEFORMAT='CPU %lU + %lS (programs, kernel), %lR by the clock'; time
# What a release is held to besides all tests, without what needs root.
RELEASE := crash typed-test pipeline-test security-test clients-test spark-test sim sim-moves sim-queues amqp-model soak cluster-test compat compat-kafka amqp-test amqp-cluster-test rocketmq-test compat-rocketmq spark-compat docs-test dist-test
.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Make .venv with the broker, its command, Spark and (where there is none) Java
	@tools/setup.sh pipeline

.PHONY: setup-dev
setup-dev: ## The same, with what tests and lint need
	@tools/setup.sh dev

.PHONY: demo
demo: setup ## nginx log -> topic -> Spark -> Parquet, a table and a picture (LOG=/path FORMAT=combined|json: your own log)
	@$(PY) -m examples.access_log.demo $(if $(LOG),--log "$(LOG)" --format $(or $(FORMAT),combined)) $(ARGS)

.PHONY: check
check: lint ## Lint, and the tests that start no process and no broker but the long ones: three minutes
	@# Its tests wait for no other process: two processes, each of which collects all tests.
	@# Property tests try a third of their examples (tests/support/examples.py).
	@$(MEASURED) HEADRACE_QUICK=1 $(PY) -m pytest -n $(or $(TEST_PROCESSES),2) --dist loadfile -m "not slow and not long" $(or $(ARGS),tests/unit tests/property)

.PHONY: test
test: setup-dev ## What belongs to every change: check's tests, brokers, a client of each protocol, Spark jobs; ten minutes
	@$(MEASURED) $(PYTEST) -m "not slow" $(ARGS)

.PHONY: test-trees
test-trees: setup-dev ## All tests of every tree, the slow ones too; tests/cluster alone needs its own target
	@$(MEASURED) $(PYTEST) $(ARGS)

.PHONY: test-all
test-all: lint ## All tests, then every target of a release (Java, Maven, Go, npm); names those that failed
	@failed=; \
	for target in test-trees $(RELEASE); do $(MAKE) $$target || failed="$$failed $$target"; done; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

.PHONY: clients-test
clients-test: setup-dev ## Stock Kafka and RabbitMQ clients and the command against brokers; prints the client x scenario matrix
	@$(PYTEST) tests/outside/clients $(ARGS)

.PHONY: test-orders
test-orders: setup-dev ## All tests in file order, reversed and in three random orders (SEEDS="1 2 3")
	@# In one process: what one file leaves behind is found by the next.
	@failed=; seeds="$(or $(SEEDS),$(shell shuf -n 3 -i 1-4294967295))"; \
	for order in "-p no:randomly" "-p no:randomly --reverse" $$(printf -- '--randomly-seed=%s ' $$seeds); do \
	  echo "== pytest $$order"; \
	  $(PY) -m pytest $$order $(ARGS) || failed="$$failed [$$order]"; \
	done; \
	test -z "$$failed" || { echo "failed with:$$failed"; exit 1; }

.PHONY: lint
lint: setup-dev ## ruff, mypy --strict, import rules, sizes, language
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy
	@.venv/bin/lint-imports
	@$(PY) tools/tidy.py
	@$(PY) tools/language.py

.PHONY: fmt
fmt: setup-dev ## Format the code
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

.PHONY: crash
crash: setup-dev ## Every crash state enumerated and counted, damaged files, full disks, 100 x kill -9 under load
	@HEADRACE_LONG=1 $(PYTEST) tests/crash tests/property/log/test_log_model.py tests/property/log/test_compacted_log_model.py tests/property/log/test_log_bits.py --timeout 1200 $(ARGS)
	@$(PY) -m tests.crash.kill_loop --kills 100
	@$(PY) -m tests.crash.queue_kill_loop --kills 100
	@$(PY) -m tests.crash.remoting_kill_loop --kills 100

.PHONY: typed-test
typed-test: setup-dev ## JSON decoders on a million damaged records and doubles, then with each access of the kernel checked
	@HEADRACE_LONG=1 $(PY) -m pytest tests/unit/typed tests/property/test_json_twin.py $(ARGS)
	@# Code that is compiled with checks must not be found by runs without.
	@NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$$(mktemp -d) $(PY) -m pytest tests/unit/typed tests/property/test_json_twin.py $(ARGS)

.PHONY: sim
sim: setup-dev ## Three brokers in one process, their order drawn from SEED=: the digests of the histories; SEEDS=0..199: replicas while all fails
	@$(PY) -m headrace.testing.sim $(or $(SEEDS),$(SEED),1) $(ARGS)

.PHONY: sim-moves
sim-moves: setup-dev ## The same of transactions, groups and share groups whose coordinators move: 20 seeds each
	@HEADRACE_LONG=1 $(PYTEST) tests/unit/testing/test_coordinators_move.py tests/unit/testing/test_shares_move.py \
	  tests/unit/testing/test_declarations_move.py \
	  tests/unit/testing/test_replicated_work.py --timeout 1200 $(ARGS)

.PHONY: sim-queues
sim-queues: setup-dev ## The same of queues of RabbitMQ's clients at any broker: 200 seeds, and planted bugs
	@HEADRACE_LONG=1 $(PYTEST) tests/unit/testing/queues --timeout 3600 $(ARGS)

.PHONY: mutants
mutants: setup-dev ## Faults planted one at a time, listed and drawn (DRAWN=, SEED=): does the suite notice?
	@$(PY) -m tests.mutants --drawn $(or $(DRAWN),200) --seed $(or $(SEED),1) $(ARGS)

.PHONY: compat
compat: setup-dev ## Kafka's own tools against us and Kafka; Java, Go and Node clients, Streams (Maven, Go, npm)
	@failed=0; \
	$(PY) -m tests.outside.kafka_tools.clients || failed=1; \
	$(PY) -m tests.outside.kafka_tools.clients --cluster || failed=1; \
	$(PY) -m tests.outside.kafka_tools.on_cluster || failed=1; \
	$(PY) -m tests.outside.kafka_tools.on_guarded || failed=1; \
	$(PY) -m tests.outside.kafka_tools.secured_clients || failed=1; \
	$(PY) -m tests.outside.kafka_tools.streams || failed=1; \
	$(PY) -m tests.outside.kafka_tools.tokens || failed=1; \
	$(PY) -m tests.outside.kafka_tools $(ARGS) || failed=1; \
	exit $$failed

.PHONY: compat-kafka
compat-kafka: setup-dev ## Apache Kafka 4.3.1 and 3.9.2 judge our files and we serve theirs (Java, Maven)
	@$(PY) -m tests.outside.kafka_reads_our_files $(ARGS)

.PHONY: amqp-model
amqp-model: setup-dev ## Durable queues against a model through kills and power cuts, each two features together: 400 long histories a case
	@HEADRACE_LONG=1 $(PYTEST) --dist load tests/property/queues/test_amqp_lives_machine.py --timeout 1200 $(ARGS)

.PHONY: queue-scale
queue-scale: setup-dev ## 10,000 durable queues, 100 million ready messages, holes, purges: memory, restarts, who waits (ARGS="purge --scale 0.1")
	@$(PY) -m tests.queue_scale $(ARGS)

.PHONY: compat-rabbitmq
compat-rabbitmq: setup-dev ## RabbitMQ 4.0 and 4.3 alongside ours: clients' scenarios hold there, both still answer as tests/golden has it, and ours as far as its lists say (root, debootstrap)
	@failed=0; \
	$(PY) -m tests.outside.amqp --broker both $(ARGS) || failed=1; \
	$(PY) -m tests.outside.amqp.replies --check || failed=1; \
	for what in "" --commands; do for broker in rabbitmq ours; do \
	  $(PY) -m tests.outside.amqp.management --broker $$broker $$what || failed=1; \
	done; done; \
	$(PY) -m tests.outside.amqp.management.policy_verdicts || failed=1; \
	exit $$failed

.PHONY: amqp-test
amqp-test: setup-dev ## RabbitMQ's clients against our broker: a matrix of clients and scenarios (Java, Go and Node: Maven, Go, npm)
	@$(PY) -m tests.outside.amqp --broker ours $(ARGS)

.PHONY: amqp-cluster-test
amqp-cluster-test: setup-dev ## AMQP clients on three brokers that are killed, paused and cut off, 2 million messages counted; then amqp-test at brokers drawn at random (ARGS="--kills 2 --seed 7": without; --broker rabbitmq)
	@failed=0; \
	$(PY) -m tests.outside.amqp_cluster $(ARGS) || failed=1; \
	$(if $(ARGS),,$(PY) -m tests.outside.amqp --broker ours --cluster || failed=1;) \
	exit $$failed

.PHONY: rocketmq-test
rocketmq-test: setup-dev ## RocketMQ's clients, unmodified, against our broker: a matrix of clients and scenarios, then the tests (Java, Go, C++ and Node: Maven, Go, pip, npm)
	@failed=0; \
	$(if $(ARGS),,$(PY) -m tests.outside.rocketmq --broker ours || failed=1;) \
	$(PYTEST) --timeout 900 $(or $(ARGS),tests/outside/rocketmq) || failed=1; \
	exit $$failed

.PHONY: compat-rocketmq
compat-rocketmq: setup-dev ## RocketMQ 5.5.0 beside us: the matrix of its clients and scenarios on both (the same, and Maven for its broker)
	@$(PY) -m tests.outside.rocketmq --broker both $(ARGS)

.PHONY: cluster-test
cluster-test: setup-dev ## Brokers on a real ZooKeeper: alone, and several that are killed, paused and restarted (Java, Maven)
	@$(PY) -m pytest $(or $(ARGS),tests/cluster)

.PHONY: version-before
version-before: setup-dev ## The version before opens what this one wrote; both in one cluster, upgraded and downgraded (BEFORE=<its checkout>; Java, Maven)
	@test -n "$(BEFORE)" || { echo "BEFORE=<checkout>: git worktree add of the version before, and make setup-dev there"; exit 2; }
	@HEADRACE_BEFORE="$(abspath $(BEFORE))" $(PY) -m pytest --timeout 900 $(or $(ARGS),tests/outside/version_before)

.PHONY: spark-test
spark-test: setup-dev ## All tests of the Spark side on a real Spark, drivers killed while they write tables
	@HEADRACE_LONG=1 $(PY) -m pytest --timeout 900 $(or $(ARGS),tests/spark)

.PHONY: pipeline-test
pipeline-test: setup-dev ## Declared pipelines on a real Spark: runs, kills, stops, checks, and the tests of each rule
	@# Files whose tests take minutes begin first: a file is one process's.
	@HEADRACE_LIVE=1 $(PY) -m pytest -n $(or $(TEST_PROCESSES),4) --dist loadfile --no-loadscope-reorder -p no:randomly --timeout 900 \
	  $(or $(ARGS),$$($(PY) -m tests.support.pipeline_rules tests/spark/pipeline))

.PHONY: spark-compat
spark-compat: setup-dev ## Spark's own Kafka connector against our broker; Delta's and Iceberg's jars on the tables we write; a project under spark-pipelines (Maven; ARGS="Delta")
	@failed=0; \
	$(PY) -m tests.outside.spark_connector || failed=1; \
	$(PY) -m tests.outside.spark_tables $(ARGS) || failed=1; \
	$(PY) -m tests.outside.spark_pipelines || failed=1; \
	exit $$failed

.PHONY: security-test
security-test: setup-dev ## Every door, question and role; every key before authentication; secrets, fuzzed handshakes, clients over TLS
	@HEADRACE_LONG=1 $(PYTEST) tests/security/test_permission_table.py tests/security/test_fuzzed_handshakes.py $(ARGS)
	@$(PYTEST) tests/security tests/unit/security tests/broker/security tests/broker/frontends/kafka/test_auth*.py \
	  tests/broker/frontends/rocketmq/test_remoting_permissions.py tests/broker/frontends/rocketmq/test_remoting_signatures.py \
	  tests/unit/frontends/kafka/authentication tests/unit/frontends/kafka/security/test_scram_credentials.py \
	  tests/broker/net/test_tls.py tests/unit/net/test_authentication_limits.py \
	  tests/property/test_acl_rules.py tests/outside/clients/test_sasl_clients.py $(ARGS)
	@$(PY) -m tests.outside.kafka_tools.secured_clients --python
	@$(PY) -m tests.security.write_table --check

.PHONY: soak
soak: setup-dev ## Everything at once for ten minutes (SOAK_SECONDS=): nothing lost, nothing that grows
	@$(PY) -m tests.soak.run --seconds $(or $(SOAK_SECONDS),600) $(ARGS)

.PHONY: chaos
chaos: setup-dev ## Exactly-once copies while one broker, then three on ZooKeeper meet every fault, 30 minutes (CHAOS_SECONDS=; Java, Maven)
	@$(PY) -m tests.chaos --seconds $(or $(CHAOS_SECONDS),1800) $(ARGS)

.PHONY: spark-kills
spark-kills: setup-dev ## Spark's sinks: processes and real drivers killed at each named point, slow tasks tried twice (KILLS=5, 1 for a quick run; real drivers twice; ARGS="--only live --table iceberg")
	@$(PY) -m tests.spark_kills --kills $(or $(KILLS),5) $(ARGS)

.PHONY: bench
bench: setup-dev ## One table of figures; PEER=kafka, PEER=rabbitmq (root, debootstrap, Go), PEER=rocketmq (Go, Maven) or PEER=<another checkout>: beside us in turn
	@$(PY) -m bench $(if $(PEER),--peer $(PEER)) $(ARGS)

.PHONY: bench-spark
bench-spark: setup-dev ## Spark on our broker beside its own connector on Kafka 4.3.1, or PEER=<another checkout>: scans, sinks, micro-batches, tables, typed topics (Maven; ARGS=--alone: without)
	@$(PY) -m bench.spark_table $(if $(PEER),--peer $(PEER)) $(ARGS)

.PHONY: docs
docs: setup-dev ## Write the generated references in docs/ anew
	@$(PY) tools/gen_config_docs.py
	@$(PY) tools/gen_protocol_docs.py
	@$(PY) tools/gen_typed_docs.py
	@$(PY) -m tests.outside.rocketmq.first_start

.PHONY: docs-test
docs-test: setup-dev ## Every block of README and docs, run as it stands; the site's links (ARGS=--quick: without Spark and ZooKeeper)
	@$(PY) -m tests.docs $(ARGS)

.PHONY: first-hour
first-hour: setup-dev ## README's first hour on a bare Debian 13, written to out/first_hour.txt (root, debootstrap)
	@$(PY) -m tests.first_hour $(ARGS)

.PHONY: container-test
container-test: setup-dev ## The container recipe built, run, stopped and killed (podman, or docker; debootstrap where no image can be pulled)
	@$(PY) -m tests.container $(ARGS)

.PHONY: dist
dist: setup-dev ## The wheel and the sdist of the last commit in dist/, the same bytes each time
	@$(PY) tools/dist.py $(ARGS)

.PHONY: dist-test
dist-test: setup-dev ## The packages in empty environments of Python 3.11 and 3.13 (PYTHONS="3.12"; ARGS=--base: without Spark), README run there
	@$(PYTEST) tests/release
	@$(PY) -m tests.release $(if $(PYTHONS),--pythons "$(PYTHONS)") $(ARGS)

.PHONY: session
session: setup-dev ## Draw the terminal at README's top anew, from a session that is really run
	@$(PY) tools/gen_session.py

.PHONY: docs-site
docs-site: setup-dev ## The pages as a site in out/site, to be read without a network
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet --site-dir out/site
	@echo "open out/site/index.html"

.PHONY: clean
clean: ## Remove what was built, .venv included
	rm -rf .venv build dist out src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
