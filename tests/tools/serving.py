"""koine serve: OpenAI's interface over HTTP. A request that would take hours shows whether another one waits, and what ends it.

usage: serving.py KOINE HOUSE_TESTS [COUNT_BUFFERS]

COUNT_BUFFERS is a library to preload; without it, there are no tests of it.
"""
import base64
import http.client
import json
import math
import os
import select
import signal
import struct
import subprocess
import sys
import threading

import byte_model
import text_encoder
from byte_model import TEXT
from koine import ENVIRONMENT, KOINE, Skipped, case, expect, koine, run_cases, strict, write

CHAT, TEXTS, VECTORS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
COUNT_BUFFERS = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None
ENDLESS = {"prompt": "a", "max_tokens": 2**31 - 1}  # of a model that can continue forever


class Server:
    """A running server. At the end of the block, it must end well on a signal, unless it has ended."""

    def __init__(self, folder, file, *options, environment=None):
        self.child = subprocess.Popen([KOINE, "serve", file, "--port", "0", "--json", *options], cwd=folder, text=True, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**ENVIRONMENT, **(environment or {})})
        line = self.child.stdout.readline()
        if not line:
            complaint = self.child.communicate()[1]
            if "built without it; install libmicrohttpd-dev" in complaint:
                raise Skipped("this build has no libmicrohttpd")
            raise AssertionError(complaint)
        self.about = strict(line)
        self.port = int(self.about["url"].rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        try:
            if not failed and self.child.returncode is None:
                self.child.send_signal(signal.SIGTERM)
                self.wait()
        finally:
            self.child.kill()
            self.child.communicate()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port)

    def send(self, path, body=None, key=None, method=None, kind="application/json", host=None):
        """A connection with a request; the caller reads the answer."""
        connection = self.connect()
        headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **({"Content-Type": kind} if kind and body is not None else {}),
                   **({"Host": host} if host else {})}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method or ("GET" if body is None else "POST"), path, data, headers)
        return connection

    def ask(self, path, body=None, **more):
        """(status, object)"""
        connection = self.send(path, body, **more)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, strict(content.decode()) if content else None

    def answer(self, path, body, **more):
        status, found = self.ask(path, body, **more)
        expect(status == 200, f"{path} {body}: {status} {found}")
        return found

    def refuses(self, status, code, path, body=None, param=None, words="", **more):
        found_status, found = self.ask(path, body, **more)
        expect(found_status == status and list(found) == ["error"] and list(found["error"]) == ["message", "type", "param", "code"] and
               found["error"]["code"] == code and words in found["error"]["message"] and (param is None or found["error"]["param"] == param),
               f"{path} {body}: expected {status}, {code}, {param}, found {found_status} {found}")

    def wait(self):
        """Returns what it has written to standard error at its end."""
        out, err = self.child.communicate()
        expect(self.child.returncode == 0 and out == "", f"status {self.child.returncode}: {out} {err}")
        return err


def events(answer):
    """What a stream sends, up to [DONE] or the end."""
    found = []
    while (line := answer.readline().decode()):
        expect(line.startswith("data: ") and answer.readline() == b"\n", f"expected an event, found {line!r}")
        if line == "data: [DONE]\n":
            expect(answer.read() == b"", "something follows [DONE]")
            return found
        found.append(strict(line[len("data: "):]))
    return [*found, None]


def streamed(server, path, body):
    answer = server.send(path, {**body, "stream": True}).getresponse()
    expect(answer.status == 200 and answer.getheader("Content-Type").startswith("text/event-stream"), f"{answer.status} {answer.headers}")
    found = events(answer)
    expect(found[-1] is not None, "the stream has no [DONE]")
    return found


def user(text):
    return [{"role": "user", "content": text}]


def endless(folder):
    """A model of bytes whose text does not end; it has seen too little to be right."""
    write(folder, "bytes.koine", "koine 1\nmodel bytes\ninput x 8 int32\nembedding 256 8\ngru 8\nlogits = linear 256\n")
    with open(os.path.join(folder, "raw"), "wb") as file:
        file.write(bytes([97, 255, 98, 195]) * 60)
    koine("train", "bytes.koine", "--data", "text:raw,bytes", "--steps", "1", folder=folder).needs(0)
    return "bytes.safetensors"


@case
def texts_are_answered(folder):
    byte_model.write(os.path.join(folder, "model.gguf"))
    with Server(folder, "model.gguf") as server:
        expect(server.about["model"] == "model", server.about)
        expect(server.ask("/health") == (200, {"status": "ok"}), "health")
        row = server.answer("/v1/models", None)["data"][0]
        expect(row["id"] == "model" and row["object"] == "model" and server.answer("/v1/models/model", None) == row, row)
        connection = server.send("/health", method="HEAD")
        expect(connection.getresponse().status == 200, "HEAD")
        connection.close()
        found = server.answer(CHAT, {"model": "model", "messages": user("xa"), "temperature": 0, "user": "me", "logprobs": False, "tools": None})
        expect(found["object"] == "chat.completion" and found["model"] == "model", found)
        choice = found["choices"][0]
        expect(choice["message"]["content"] == TEXT[1:] and choice["message"]["role"] == "assistant", found)
        # The tokens of the answer are the bytes of the text and the end.
        expect(choice["finish_reason"] == "stop" and choice["index"] == 0 and len(found["choices"]) == 1, found)
        expect(found["usage"] == {"prompt_tokens": 4, "completion_tokens": 8, "total_tokens": 12}, found)
        parts = [{"role": "system", "content": "x"}, {"role": "user", "content": [{"type": "text", "text": "c"}, {"type": "text", "text": " d"}]}]
        found = server.answer(CHAT, {"messages": parts, "temperature": 0, "max_tokens": 3})
        expect(found["choices"][0]["message"]["content"] == "é!" and found["usage"]["completion_tokens"] == 3, found)
        found = server.answer(CHAT, {"messages": user("xa"), "temperature": 0, "max_completion_tokens": 2})
        expect(found["choices"][0]["message"]["content"] == "bc" and found["choices"][0]["finish_reason"] == "length", found)
        # A conversation reuses the cached start that it shares with the previous one, and only that.
        for text, wanted in (("xa", TEXT[1:]), ("xac", " dé!"), ("xab", "c dé!"), ("c", " dé!")):
            found = server.answer(CHAT, {"messages": user(text), "temperature": 0})["choices"][0]["message"]["content"]
            expect(found == wanted, f"{text}: {found}")
        found = server.answer(TEXTS, {"prompt": ["ab", "d"], "temperature": 0, "n": 2, "top_k": 3, "min_p": 0.1, "repetition_penalty": 1.1})
        expect([one["text"] for one in found["choices"]] == ["c dé!"] * 2 + ["é!"] * 2, found)
        expect([one["index"] for one in found["choices"]] == [0, 1, 2, 3] and found["object"] == "text_completion", found)
        expect(found["usage"] == {"prompt_tokens": 3, "completion_tokens": 22, "total_tokens": 25}, found)
        # The seed decides, and samples differ.
        hot = {"prompt": "ab", "temperature": 2, "n": 9, "max_tokens": 12}
        one, again, other = ([row["text"] for row in server.answer(TEXTS, {**hot, "seed": seed})["choices"]] for seed in (9, 9, 20))
        expect(one == again != other and len(set(one)) > 1, (one, again, other))
        # The context has room for 40 tokens.
        found = server.answer(TEXTS, {"prompt": "a" * 37, "temperature": 0})["choices"][0]
        expect(found["text"] == "bc " and found["finish_reason"] == "length", found)


@case
def answers_end_before_stop_texts(folder):
    byte_model.write_folder(os.path.join(folder, "model"))
    with Server(folder, "model") as server:
        for stop, text in (("dé", "c "), (["!!", "d"], "c "), (["é", "c"], ""), ("x", "c dé!"), ([], "c dé!"), (None, "c dé!"), ("!", "c dé")):
            body = {"prompt": "ab", "temperature": 0, "stop": stop}
            found = server.answer(TEXTS, body)["choices"][0]
            parts = streamed(server, TEXTS, body)
            expect(found["text"] == text and found["finish_reason"] == "stop", f"{stop}: {found}")
            expect("".join(part["choices"][0]["text"] for part in parts) == text, f"{stop}: {parts}")
        server.refuses(400, "invalid_value", TEXTS, {"prompt": "a", "stop": ""}, "stop")


@case
def answers_are_streamed(folder):
    byte_model.write(os.path.join(folder, "model.gguf"))
    with Server(folder, "model.gguf") as server:
        parts = streamed(server, CHAT, {"messages": user("xa"), "temperature": 0, "stream_options": {"include_usage": True}})
        expect({part["object"] for part in parts} == {"chat.completion.chunk"} and len({part["id"] for part in parts}) == 1, parts)
        expect(parts[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}, parts[0])
        # The two bytes of a letter arrive together.
        expect([part["choices"][0]["delta"] for part in parts[1:-2]] == [{"content": letter} for letter in TEXT[1:]], parts)
        expect([part["choices"][0]["finish_reason"] for part in parts[:-1]] == [None] * (len(parts) - 2) + ["stop"], parts)
        expect(parts[-1]["choices"] == [] and parts[-1]["usage"] == {"prompt_tokens": 4, "completion_tokens": 8, "total_tokens": 12}, parts[-1])
        parts = streamed(server, TEXTS, {"prompt": "d", "n": 2, "temperature": 0})
        for index in (0, 1):
            texts = [part["choices"][0]["text"] for part in parts if part["choices"][0]["index"] == index]
            expect(texts == ["é", "!", ""], f"{index}: {parts}")
        answer = server.send(CHAT, {"messages": user("a" * 50), "stream": True}).getresponse()
        expect(answer.status == 400 and strict(answer.read().decode())["error"]["code"] == "context_length_exceeded", answer.status)


@case
def invalid_requests_are_refused(folder):
    byte_model.write(os.path.join(folder, "model.gguf"))
    with Server(folder, "model.gguf", "--max-request", "5000", "--max-tokens", "3") as server:
        for body in (b"", b"{", b"{\"prompt\": \"a\"} x", b"\xff", b'{"prompt": "\xff"}', b'{"prompt": "a", "prompt": "b"}', b"[" * 3000, b"NaN"):
            server.refuses(400, "invalid_json", TEXTS, body)
        server.refuses(400, "invalid_type", TEXTS, [])
        chat = {"messages": user("xa")}
        for wrong in ({"messages": []}, {"messages": "x"}, {"messages": [1]}, {"messages": [{"role": "user"}]}, {"messages": [{"content": "x"}]},
                      {"messages": [{"role": "tool", "content": "x"}]}, {"messages": [{"role": "user", "content": 1}]},
                      {"messages": [{"role": "user", "content": None}]}, {"messages": [{"role": "user", "content": "x", "tool_calls": [1]}]},
                      {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, {"messages": user("\0")}, *({"messages": [{"role": "user", "content": "x", key: 1}]} for key in ("", "role content", "name\0"))):
            status, found = server.ask(CHAT, wrong)
            expect(status == 400 and found["error"]["param"] in ("messages", "role", "content"), f"{wrong}: {found}")
        for name, values in {"temperature": ("1", -1, 2.5), "top_p": (0, 1.5, "x"), "top_k": (1.5, -2, []), "min_p": (-1, 2), "seed": (1.5, 2**63, "1"),
                             "repetition_penalty": (0, -1), "max_tokens": (0, -1, 1.5, "1"), "n": (0, 129), "stream": (1, "true"), "stop": (1, [1]),
                             "stream_options": (1, {"x": True}, {"include_usage\0": True}), "tool_choice": ("none\0",), "frequency_penalty": (0.5, False), "logprobs": (True, 0), "top_logprobs": (1, False), "logit_bias": ({"1": 2},),
                             "response_format": ({"type": "json_object"},), "tools": ([{}],), "model": (1,), "guided_json": (1, {}), "prompt": ("a",),
                             "a\0": (1,), "": (1,), "messages\0": (1,)}.items():
            for value in values:
                status, found = server.ask(CHAT, {**chat, name: value})
                expect(status == 400 and found["error"]["param"] == name.split("\0")[0] or name == "" and status == 400, f"{name}={value}: {status} {found}")
        # With 0, a completion would have the log-probabilities of its tokens.
        for name, value in (("logprobs", 0), ("logprobs", 2), ("best_of", 0), ("echo", 0)):
            server.refuses(400, "unsupported_parameter", TEXTS, {"prompt": "a", name: value}, name)
        server.answer(TEXTS, {"prompt": "d", "temperature": 0, "logprobs": None, "best_of": 1, "echo": False})
        server.refuses(404, "model_not_found", CHAT, {**chat, "model": "gpt"}, "model")
        server.refuses(404, "model_not_found", "/v1/models/gpt")
        server.refuses(400, "missing_parameter", CHAT, {}, "messages")
        server.refuses(400, "missing_parameter", CHAT, {"messages": None}, "messages")
        server.refuses(400, "missing_parameter", TEXTS, {"model": "model"}, "prompt")
        for prompt in ([], 1, [1], [["a"]], {}):
            server.refuses(400, "invalid_value" if prompt == [] else "invalid_type", TEXTS, {"prompt": prompt}, "prompt")
        server.refuses(400, "invalid_value", TEXTS, {"prompt": ["a"] * 65, "n": 2}, "n")
        server.refuses(400, "context_length_exceeded", CHAT, {"messages": user("a" * 50)}, "messages", "52 tokens")
        server.refuses(400, "context_length_exceeded", TEXTS, {"prompt": "a" * 40}, "prompt", "40 tokens")
        server.refuses(413, "request_too_large", TEXTS, {"prompt": "a" * 5000})
        connection = server.connect()  # the size is not known before
        connection.request("POST", TEXTS, iter([b"x" * 3000] * 9), {"Content-Type": "application/json"}, encode_chunked=True)
        expect(connection.getresponse().status == 413, "pieces are larger together")
        server.refuses(415, "unsupported_media_type", TEXTS, {"prompt": "a"}, kind="text/plain")
        for name in ("example.org", f"example.org:{server.port}", "localhost.example.org", "[::2]:80"):
            server.refuses(403, "unknown_host", TEXTS, {"prompt": "a"}, host=name)
        for name in ("LOCALHOST", f"localhost:{server.port}", "[::1]:80"):
            expect(server.ask("/v1/models", host=name)[0] == 200, f"the host {name}")
        server.refuses(404, "not_found", "/v1/chat", chat)
        server.refuses(404, "not_found", "/v1/models/")
        server.refuses(405, "method_not_allowed", CHAT)
        server.refuses(405, "method_not_allowed", "/health", chat)
        # The limit of the server is that of each answer.
        found = server.answer(TEXTS, {"prompt": "ab", "temperature": 0, "max_tokens": 100})["choices"][0]
        expect(found["text"] == "c d" and found["finish_reason"] == "length", found)


@case
def a_key_is_needed(folder):
    byte_model.write(os.path.join(folder, "model.gguf"))
    body = {"prompt": "d", "temperature": 0}
    for options, environment in ((["--api-key", "secret"], None), ([], {"KOINE_API_KEY": "secret"})):
        with Server(folder, "model.gguf", *options, environment=environment) as server:
            for key in (None, "secre", "secrets", "x", "secretsecret"):
                server.refuses(401, "invalid_api_key", TEXTS, body, key=key)
                server.refuses(401, "invalid_api_key", "/v1/models", key=key)
            server.refuses(401, "invalid_api_key", "/v1/other")
            expect(server.ask("/v1/models", key="secret", host="example.org")[0] == 200, "with the key, the server has any name")
            expect(server.answer(TEXTS, body, key="secret")["choices"][0]["text"] == "é!", "with the key")
            expect(server.ask("/health")[0] == 200, "health needs no key")


@case
def clients_at_once_get_their_own_answers(folder):
    byte_model.write(os.path.join(folder, "model.gguf"))
    wrong = []
    with Server(folder, "model.gguf") as server:
        def ask(prompt, wanted):
            for i in range(5):
                body = {"prompt": prompt, "temperature": 0}
                parts = streamed(server, TEXTS, body) if i % 2 else [server.answer(TEXTS, body)]
                found = "".join(part["choices"][0]["text"] for part in parts)
                if found != wanted:
                    wrong.append((prompt, found))
        threads = [threading.Thread(target=ask, args=(TEXT[:count], TEXT[count:])) for count in (1, 2, 3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    expect(not wrong, wrong)


@case
def a_client_that_leaves_ends_its_request(folder):
    file = endless(folder)
    with Server(folder, file, "--queue", "1") as server:
        for stream in (True, False):
            first = server.send(TEXTS, {**ENDLESS, "stream": stream})
            if stream:
                answer = first.getresponse()
                expect(answer.readline().startswith(b"data: "), "the stream begins")
            first.close()
            if stream:
                answer.close()
            found = server.answer(TEXTS, {"prompt": "b", "max_tokens": 1})
            expect(found["usage"]["completion_tokens"] == 1, found)
        server.refuses(400, "unsupported_model", CHAT, {"messages": user("a")})


@case
def requests_are_answered_at_once(folder):
    byte_model.write(os.path.join(folder, "model.gguf"), context=20000, endless=True)
    with Server(folder, "model.gguf", "--parallel", "3", "--context", "20000") as server:
        running, leaving = (server.send(TEXTS, {**ENDLESS, "temperature": 0, "stream": True}) for _ in range(2))
        streams = [one.getresponse() for one in (running, leaving)]
        for stream in streams:
            expect(stream.readline().startswith(b"data: "), "the stream begins")
            stream.readline()
        # The third slot, then also the second one.
        long, wrong = "xyz" * 200, []

        def ask(count):
            found = [server.answer(TEXTS, {"prompt": prompt + TEXT[:count], "temperature": 0, "max_tokens": 8})["choices"][0]["text"]
                     for prompt in ("", long, "")]
            if found != [TEXT[count:] + TEXT[:count]] * 3:
                wrong.append((count, found))
        ask(1)
        leaving.close()
        streams[1].close()
        threads = [threading.Thread(target=ask, args=(count,)) for count in (2, 3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect(not wrong, wrong)
        server.child.send_signal(signal.SIGINT)
        last = events(streams[0])
        expect(last[-1] is None and last[-2]["error"]["code"] == "shutting_down", f"the first answer ended before: {last[-2:]}")
        text = "b" + "".join(part["choices"][0]["text"] for part in last[:-2])
        expect(text == (TEXT * len(text))[1:len(text) + 1], text[:100])
        server.wait()


@case
def requests_wait_up_to_a_limit_and_end_with_the_server(folder):
    file = endless(folder)
    with Server(folder, file, "--queue", "1") as server:
        running = server.send(TEXTS, {**ENDLESS, "stream": True})
        stream = running.getresponse()
        expect(stream.readline().startswith(b"data: "), "the stream begins")
        stream.readline()
        waiting = [server.send(TEXTS, {"prompt": "b"}) for _ in range(2)]
        refused = select.select([one.sock for one in waiting], [], [])[0]
        expect(len(refused) == 1, "both are answered")
        waiting.sort(key=lambda one: one.sock is not refused[0])
        answer = waiting[0].getresponse()
        expect(answer.status == 429 and strict(answer.read().decode())["error"]["code"] == "queue_full", answer.status)
        server.child.send_signal(signal.SIGINT)
        last = events(stream)
        expect(last[-1] is None and last[-2]["error"]["code"] == "shutting_down", last[-2:])
        answer = waiting[1].getresponse()
        expect(answer.status == 503 and strict(answer.read().decode())["error"]["code"] == "shutting_down", answer.status)
        expect("ending the server" in server.wait(), "the end is not reported")


@case
def requests_take_limited_memory(folder):
    byte_model.write(os.path.join(folder, "model.gguf"))
    with Server(folder, "model.gguf") as server:
        for many in ([0] * 100000, [[]] * 100000, [{}] * 50001):
            server.refuses(400, "invalid_json", TEXTS, {"prompt": "a", "metadata": many}, words="more than 100000 values")
        for few in ([[]] * 49990, [0] * 99990, "[,{" * 50000, '"\\,' * 50000):
            found = server.answer(TEXTS, {"prompt": "d", "temperature": 0, "metadata": few})["choices"][0]
            expect(found["text"] == "é!", found)


@case
def a_lack_of_memory_is_not_the_clients_fault(folder):
    if not COUNT_BUFFERS:
        raise Skipped("buffers are not counted in this build")
    byte_model.write(os.path.join(folder, "model.gguf"))
    with Server(folder, "model.gguf", environment={"LD_PRELOAD": COUNT_BUFFERS, "COUNT_BUFFERS": os.path.join(folder, "count")}):
        pass
    with open(os.path.join(folder, "count"), encoding="utf-8") as file:
        started = int(file.read().split()[0])
    with Server(folder, "model.gguf", environment={"LD_PRELOAD": COUNT_BUFFERS, "FAIL_BUFFERS": str(started + 1)}) as server:
        server.refuses(503, "out_of_memory", TEXTS, {"prompt": "ab"})
        expect(server.ask("/health")[0] == 200, "health")


@case
def requests_take_limited_time(folder):
    byte_model.write(os.path.join(folder, "model.gguf"))
    with Server(folder, "model.gguf", "--timeout", "1e-9") as server:
        server.refuses(503, "timeout", TEXTS, {"prompt": "a"})
        expect(server.ask("/health")[0] == 200, "health")


@case
def texts_have_vectors(folder):
    text_encoder.write(os.path.join(folder, "encoder"))
    texts = ["a b b", "", "b zz a", "a " * 30] * 20
    write(folder, "texts.txt", "".join(text + "\n" for text in texts))
    koine("infer", "encoder", "texts.txt", "--output", "found.csv", folder=folder).needs()
    with open(os.path.join(folder, "found.csv"), encoding="utf-8") as file:
        wanted = [[float(number) for number in line.split(",")] for line in file.read().split()[1:]]
    with Server(folder, "encoder") as server:
        found = server.answer(VECTORS, {"model": "encoder", "input": texts})
        # Each text has two more tokens, and a long one is cut.
        expect(found["usage"] == {"prompt_tokens": 20 * (5 + 2 + 5 + 20), "total_tokens": 20 * (5 + 2 + 5 + 20)} and found["model"] == "encoder", found["usage"])
        for i, (row, vector) in enumerate(zip(found["data"], wanted)):
            expect(row["index"] == i and max(abs(a - b) for a, b in zip(row["embedding"], vector)) < 1e-6, f"{i}: {row}, expected {vector}")
        expect(len(found["data"]) == len(texts), len(found["data"]))
        # In base64, and by itself in a shorter window.
        row = server.answer(VECTORS, {"input": "b zz a", "encoding_format": "base64", "dimensions": text_encoder.WIDTH, "user": "me"})["data"][0]
        vector = struct.unpack(f"<{text_encoder.WIDTH}f", base64.b64decode(row["embedding"], validate=True))
        expect(max(abs(a - b) for a, b in zip(vector, wanted[2])) < 1e-6, f"{vector}, expected {wanted[2]}")
        server.refuses(400, "missing_parameter", VECTORS, {}, "input")
        server.refuses(400, "invalid_value", VECTORS, {"input": []}, "input")
        server.refuses(400, "invalid_value", VECTORS, {"input": ["a"] * 2049}, "input")
        server.refuses(400, "invalid_type", VECTORS, {"input": [1, 2]}, "input")
        server.refuses(400, "invalid_value", VECTORS, {"input": "a", "dimensions": 2}, "dimensions")
        server.refuses(400, "invalid_value", VECTORS, {"input": "a", "encoding_format": "int8"}, "encoding_format")
        server.refuses(400, "unknown_parameter", VECTORS, {"input": "a", "stream": True}, "stream")
        server.refuses(400, "unsupported_model", TEXTS, {"prompt": "a"})
    text_encoder.write(os.path.join(folder, "broken"), last_bias=math.nan)
    with Server(folder, "broken") as server:
        server.refuses(500, "failed", VECTORS, {"input": "a", "encoding_format": "base64"}, words="not finite")
    koine("serve", "encoder", "--adapter", "poems", folder=folder).needs(1, err="adapter")
    byte_model.write(os.path.join(folder, "model.gguf"))
    with Server(folder, "model.gguf") as server:
        server.refuses(400, "unsupported_model", VECTORS, {"input": "a"})


@case
def mistakes_are_reported(folder):
    koine("serve").needs(2, err="serve needs a language model")
    for options in (("--port", "70000"), ("--timeout", "0"), ("--max-request", "0"), ("--max-tokens", "0"), ("--queue", "0"), ("--parallel", "0"), ("--parallel", "65"), ("--api-key", "")):
        koine("serve", "model.gguf", *options).needs(2, err=options[0])
    koine("serve", "model.gguf", environment={"KOINE_API_KEY": ""}).needs(2, err="KOINE_API_KEY is empty")
    byte_model.write(os.path.join(folder, "model.gguf"))
    with Server(folder, "model.gguf") as server:
        koine("serve", "model.gguf", "--port", str(server.port), folder=folder).needs(1, err=f"port {server.port}")
        koine("serve", "model.gguf", "--host", "no such host", folder=folder).needs(1, err="no such host")
        koine("serve", "missing.gguf", folder=folder).needs(1, err="missing.gguf")


run_cases()
