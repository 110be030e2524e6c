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

  kringle verify pastry --model two-joiners --states 50000000 --seconds 600
      one model for longer

  kringle verify pastry --replay schedule.txt
      drive the simulator through a schedule that was printed

  kringle verify pastry --gate
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

  kringle sim replay run7/pastry-hops-7.json
      the same again; exit code 1 if anything comes out differently

  kringle sim paper pastry --out pastry
      every experiment of a paper on one page";
