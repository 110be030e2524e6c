//! Examples below the help of each command.

/// Below the help of the program.
pub(crate) const ALL: &str = "\
Start here:
  kringle start
      a node on this machine; then, in another terminal: kringle status, kringle trace hello

  kringle table --example lecture
  kringle route --example
      what a node knows and how it decides, without a network";

/// Below the help of `start`.
pub(crate) const START: &str = "\
Every flag is also an environment variable (--advertise-client: KRINGLE_ADVERTISE_CLIENT) and a line of the \
file that --config names (advertise-client = \"...\"). Flags come first, then variables, then the file. \
'kringle config show --origin' prints what comes out.

Ctrl-C or SIGTERM stops the node: it keeps its identity (with --data) and may come back. 'kringle leave' \
says goodbye for good.

Examples:
  kringle start
      alone on this machine, in memory

  kringle start --cluster blue --data ./blue --listen 0.0.0.0
      the first node of a cluster; prints the line that brings the next one in

  kringle start --listen 127.0.0.1:7401 --http 127.0.0.1:7481 --join 127.0.0.1:7400
      a second node on the same machine";

/// Below the help of `put`.
pub(crate) const PUT: &str = "\
Examples:
  kringle put greeting 'hello ring' --ttl 10m
      gone after ten minutes; tells its version and how many copies have it

  kringle put photo @photo.jpg
  tar c . | kringle put backup
      from a file, from standard input

  kringle put greeting 'hello again' --if-version 018bcfe568000010
      only if nobody changed it meanwhile; exit code 6 if somebody did

Exit codes: 5 too few copies or no answer in time (the text says whether it may have happened), 6 the condition does \
not hold, 8 too large.";

/// Below the help of `get`.
pub(crate) const GET: &str = "\
Examples:
  kringle get photo > photo.jpg
      exactly the bytes; a line end is added on a terminal only

  kringle get greeting --meta
      version, size and end

  kringle get room --all
      the values of a set, one per line; with --meta their digests and versions

Exit code 3 if there is no such key.";

/// Below the help of `keys`.
pub(crate) const KEYS: &str = "\
Examples:
  kringle keys --match 'user:*' --limit 20
  kringle keys --json=lines | jq -r .key
      all of them, a line each

Keys come in the order of their places on the ring. Those that change meanwhile may be missed. Keys that are no text \
are escaped; --json has them in base64.";

/// Below the help of `export`.
pub(crate) const EXPORT: &str = "\
Examples:
  kringle export backup.jsonl
  kringle export | gzip > backup.jsonl.gz

A line of JSON per key, in the order of the ring: {\"key\", \"value\", \"ttl_ms\"}, or {\"key\", \"values\"} for a set. The \
first line names the schema, the last says how many keys there are. Bytes that are no text are {\"base64\"}. It is no \
snapshot: keys that change meanwhile may be missed.

Exit code 1 if some keys could not be read; FILE is then called FILE.partial.";

/// Below the help of `import`.
pub(crate) const IMPORT: &str = "\
Examples:
  kringle import backup.jsonl
  gunzip < backup.jsonl.gz | kringle import --if-absent

Every key is a new write: it gets a new version, and a time to live counts from now. A set is deleted and added \
again. It can be repeated.

Exit code 1 if some keys were not written, or the file has no last line; 2 if it is no export.";

/// Below the help of `bench`.
pub(crate) const BENCH: &str = "\
Examples:
  kringle bench --mixed --seconds 30
      half reads, half writes, at the node --node names

  kringle bench --put --size 1024 --outstanding 16 --node host-a --node host-b
      writes of 1 KiB, over two nodes

Keys are bench:SEED:NUMBER and stay; choose the same --seed to write the same ones again. Reading writes them first. \
Ctrl-C ends it early and prints what was measured.";

/// Below the help of `table`.
pub(crate) const TABLE: &str = "\
Examples:
  kringle table
      the node at --node; 'kringle table a3b9' for another of its ring

  kringle table --example lecture
      the node drawn in the Pastry paper and in the lecture

  kringle table --example 2 8 ring.txt
      ids of 8 digits in base 4 (b=2), one per line; the first is the node itself

  printf '%s\\n' 10233102 10233033 31203203 | kringle table --example 2 8 -
      the same from standard input

  kringle table --example 4 32 ring.txt --leaf-set 8 --json
      for programs; the document names its schema, kringle.table/1

In FILE blank lines and lines that start with # are skipped. The order of the lines is proximity: the \
first candidate for a cell gets it, and the first nodes are the neighbourhood set. Bases above 32 (b=6 \
to 8) write a digit as two hexadecimal characters and join digits with dots: 0a.7f.01";

/// Below the help of `route`.
pub(crate) const ROUTE: &str = "\
Examples:
  kringle route greeting hello
      to the application at whoever answers for the key 'greeting'; prints its answer

  kringle route --example
      the two decisions of the lecture: a table cell, and the rare case

  kringle route --example 65b23c05
      one of them; any other key of 8 hexadecimal digits is explained over the first table

  kringle route --example 31203203 --table ring.txt --base 2 --digits 8
      a key over your own ring; see 'kringle table --help' for the file

  kringle route --example 65523c05 --json
      for programs; the document names its schema, kringle.route/1

Distances are numbers in the base of the ids.";

/// Below the help of `verify`.
pub(crate) const VERIFY: &str = "\
Examples:
  kringle verify pastry
      every model, each up to its bound; exit code 1 if a property is broken

  kringle verify chord
      the same for Chord's ring; each has its own '--help'";

/// Below the help of `verify pastry`.
pub(crate) const VERIFY_PASTRY: &str = "\
Examples:
  kringle verify pastry
      every model, each up to its bound; exit code 1 if a property is broken

  kringle verify pastry --model two-joiners --states 50000000 --seconds 600
      one model for longer

  kringle verify pastry --replay schedule.txt
      drive the simulator through a schedule that was printed

  kringle verify pastry --gate
      leave every rule out in turn; needs a build with --features mutants";

/// Below the help of `verify store`.
pub(crate) const VERIFY_STORE: &str = "\
Examples:
  kringle verify store
      every world that is soon searched to the end; exit code 1 if a property is broken

  kringle verify store --model lost-disks --large
      one model, with its large worlds";

/// Below the help of `verify chord`.
pub(crate) const VERIFY_CHORD: &str = "\
Without options a set of small worlds is searched; with any that bounds a world, that one.

Examples:
  kringle verify chord
      what every change is tried on; exit code 1 if a property is broken

  kringle verify chord --joins 1 --ids 4 --limit 100000000
      three founders and a joiner, message by message, every order: minutes, and 3 GB of memory

  kringle verify chord --atomic --founders 4 --joins 2 --failures 2
      a question and its answer as one step: larger worlds, fewer orders

  kringle verify chord --gate
      leave every rule out in turn; needs a build with --features mutants";

/// Below the help of `sim`.
pub(crate) const SIM: &str = "\
Examples:
  kringle sim list
      what can be run

  kringle sim run pastry-hops --nodes 1e4 --seed 7 --out run7
      one experiment: numbers, pictures and what it takes to repeat it

  kringle sim sweep pastry-hops --vary leaf-set=16,32 --seeds 1..10 --out sweep
      many: mean and 95 % interval over seeds

  kringle sim hunt --seeds 1..1000 --duration 10m --overlay chord
      the store under faults, 1 to 12 nodes: prints the seeds that fail

  kringle sim replay run7/pastry-hops-7.json
      the same again; exit code 1 if anything comes out differently

  kringle sim paper pastry --out pastry
      every experiment of a paper on one page";
