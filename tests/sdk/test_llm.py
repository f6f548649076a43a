"""The `llm` command line: a prompt, streamed and whole, a tool, an error in words."""
import os
import subprocess
import sys
import tempfile
import unittest

from house import BASE, KEY, MODEL, call, order

LLM = os.path.join(os.path.dirname(sys.executable), "llm")


class CommandLine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        with open(os.path.join(cls.folder.name, "extra-openai-models.yaml"), "w") as f:
            for name, streams in [("sluice", "true"), ("sluice-whole", "false")]:
                f.write(f"- model_id: {name}\n  model_name: {MODEL}\n  api_base: {BASE}\n  api_key_name: sluice\n"
                        f"  supports_tools: true\n  can_stream: {streams}\n")
        cls.run_llm("keys", "set", "sluice", "--value", KEY)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def run_llm(cls, *arguments, check=True):
        return subprocess.run([LLM, *arguments], env={**os.environ, "LLM_USER_PATH": cls.folder.name}, check=check, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120)

    def test_stream_and_whole(self):
        for model in ["sluice", "sluice-whole"]:
            self.assertEqual(self.run_llm("-m", model, order("An answer.")).stdout.strip(), "An answer.")

    def test_tool(self):
        function = "def get_weather(town: str) -> str:\n    'Weather of a town'\n    return " + repr(order("It rains there."))
        r = self.run_llm("-m", "sluice-whole", "--functions", function, order(call("get_weather", {"town": "Köln"})))
        self.assertEqual(r.stdout.strip(), "It rains there.")

    def test_error(self):
        r = self.run_llm("-m", "sluice", order(), "-o", "temperature", "1.5", "--key", "sk-no", check=False)
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("not valid", r.stderr)


if __name__ == "__main__":
    unittest.main()
