"""LlamaIndex's OpenAILike: chat, stream, completion, an agent's loop, structured output, errors."""
import unittest

import openai
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

from house import BASE, KEY, MODEL, AsyncCase, call, order


class Weather(BaseModel):
    town: str
    rain: bool


def get_weather(town: str) -> str:
    """Weather of a town."""
    return order(f"It rains in {town}.")


def model(key=KEY, **more):
    return OpenAILike(**{"model": MODEL, "api_base": BASE, "api_key": key, "is_chat_model": True, "is_function_calling_model": True,
                         "max_retries": 0, "context_window": 4096, **more})


def asks(text):
    return [ChatMessage(role="system", content="Be brief."), ChatMessage(role="user", content=text)]


class Index(unittest.TestCase):
    def test_chat(self):
        r = model(temperature=0).chat(asks(order("An answer.")))
        self.assertEqual(r.message.content, "An answer.")
        self.assertGreater(r.raw.usage.completion_tokens, 0)

    def test_stream(self):
        parts = list(model().stream_chat(asks(order("one two three"))))
        self.assertEqual("".join(p.delta for p in parts), "one two three")

    def test_completion(self):
        self.assertEqual(model(is_chat_model=False, max_tokens=50).complete(order("plain text")).text, "plain text")

    def test_tool_call(self):
        tool, llm = FunctionTool.from_defaults(get_weather), model()
        r = llm.chat_with_tools([tool], user_msg=order(call("get_weather", {"town": "Köln"})))
        self.assertEqual([(c.tool_name, c.tool_kwargs) for c in llm.get_tool_calls_from_response(r)], [("get_weather", {"town": "Köln"})])

    def test_structured_output(self):
        want = Weather(town="Köln", rain=True)
        said = PromptTemplate("{order}")
        r = model().structured_predict(Weather, said, order=order(call("Weather", want.model_dump())))
        self.assertEqual(r, want)

    def test_errors(self):
        with self.assertRaises(openai.AuthenticationError):
            model(key="sk-no").chat(asks("x"))
        with self.assertRaises(openai.BadRequestError):
            model(additional_kwargs={"top_p": 9}).chat(asks("x"))


class Agent(AsyncCase):
    async def test_tools_loop(self):
        for streaming in (True, False):
            agent = FunctionAgent(tools=[get_weather], llm=model(), system_prompt="Be brief.", streaming=streaming)
            r = await agent.run(order(call("get_weather", {"town": "Bonn"})))
            self.assertEqual(str(r), "It rains in Bonn.")


if __name__ == "__main__":
    unittest.main()
