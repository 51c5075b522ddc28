"""Measures a server with clients that ask at the same time, each with a thread and a connection of its own.

    python3 tests/clients/load.py PORT CLIENTS PROMPT_TOKENS ANSWER_TOKENS [ROUNDS [HIGHEST_ID]]

Prompts are random ids of tokens, up to HIGHEST_ID (100,000), so that no two begin alike; answers are greedy, streamed, and as long as was asked for. "together" is the rate
from the first token of the last client to the last token of the first one that ends, and is known for one round only.
"""

import http.client
import json
import random
import sys
import threading
import time


def quantile(values, part):
    return values[min(len(values) - 1, int(len(values) * part))] * 1e3


def answer(port, seed, prompt_tokens, answer_tokens, highest_id):
    """Asks once. Returns when the request was sent and when each token came, in seconds."""
    numbers = random.Random(seed)
    prompt = [numbers.randrange(1, highest_id) for _ in range(prompt_tokens)]
    body = {"prompt": prompt, "max_tokens": answer_tokens, "temperature": 0, "stream": True, "ignore_eos": True}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    began = time.perf_counter()
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"{response.status}: {response.read(300)}")
    lines = iter(response.readline, b"")
    return began, [time.perf_counter() for line in lines if line.startswith(b"data:") and b"[DONE]" not in line]


def main():
    port, clients, prompt_tokens, answer_tokens, rounds, highest_id = [
        int(argument) for argument in sys.argv[1:] + ["1", "100000"][len(sys.argv) - 5 :]
    ]
    answers = []

    def client(number):
        for turn in range(rounds):
            answers.append(answer(port, number * 1000 + turn, prompt_tokens, answer_tokens, highest_id))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(answers) < clients * rounds:
        sys.exit(f"{clients * rounds - len(answers)} of {clients * rounds} requests failed")
    first = sorted(times[0] - began for began, times in answers)
    gaps = sorted(later - earlier for _, times in answers for earlier, later in zip(times, times[1:]))
    together = "-"
    all_answer, one_ends = max(times[0] for _, times in answers), min(times[-1] for _, times in answers)
    if rounds == 1 and one_ends > all_answer:
        counted = sum(all_answer < at <= one_ends for _, times in answers for at in times)
        together = f"{counted / (one_ends - all_answer):.1f}"
    print(f"{clients} clients, prompts of {prompt_tokens}, answers of {answer_tokens}: together {together} tokens/s")
    print(f"  first token, ms: median {quantile(first, 0.5):.1f}, largest {first[-1] * 1e3:.1f}")
    if gaps:
        print(f"  gap, ms: median {quantile(gaps, 0.5):.2f}, p99 {quantile(gaps, 0.99):.2f}, largest {gaps[-1] * 1e3:.2f}")


if __name__ == "__main__":
    main()
