#!/usr/bin/env python3
"""What one rank of a trainer does with a schedule.

dcpsim simulate --trace lengths.txt --model llama2-7b --cluster h200_8x4 --policy dcp --schedule s.jsonl
python3 train.py s.jsonl RANK
"""
import json
import sys


def run_micro_batch(ranks, mb):
    """Here a trainer loads the samples, shards them over the group's ranks, runs forward and backward, and adds
    mb["weight"] * (gradient of the mean loss) to its gradient."""
    print(f"  ranks {ranks[0]} to {ranks[1] - 1}: {mb['layout']}, recompute {mb['recompute_layers']} layers, "
          f"weight {mb['weight']:.6f}, samples {mb['samples'][:3]}{'...' if len(mb['samples']) > 3 else ''}")


def main(path, rank):
    with open(path, encoding="utf-8") as lines:
        header = json.loads(next(lines))
        if header["schema"] != "dcpsim.schedule/1":
            sys.exit(f"train: '{path}' has the schema {header['schema']}, this trainer reads dcpsim.schedule/1")
        for step in map(json.loads, lines):
            print("step", step["iteration"])
            groups = [g for g in step["groups"] if g["ranks"][0] <= rank < g["ranks"][1]]
            for group in sorted(groups, key=lambda g: g.get("round", 0)):
                for micro_batch in group["micro_batches"]:
                    run_micro_batch(group["ranks"], micro_batch)
            # All ranks, idle ones too: sum the gradients and step the optimizer.


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[2].isdigit():
        sys.exit("usage: python3 train.py SCHEDULE RANK")
    main(sys.argv[1], int(sys.argv[2]))
