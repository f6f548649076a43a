"""LangChain's ChatOpenAI: invoke, stream, an agent's tool loop, errors."""
import unittest

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from house import BASE, KEY, MODEL, call, order


def model(key=KEY, **more):
    return ChatOpenAI(base_url=BASE, api_key=key, model=MODEL, max_retries=0, **more)


@tool
def get_weather(town: str) -> str:
    """Weather of a town."""
    return order(f"It rains in {town}.")


class Chain(unittest.TestCase):
    def test_invoke(self):
        r = model(temperature=0).invoke([("system", "Be brief."), ("human", order("An answer."))])
        self.assertEqual(r.content, "An answer.")
        self.assertGreater(r.usage_metadata["output_tokens"], 0)

    def test_stream(self):
        parts = list(model(stream_usage=True).stream(order("one two three")))
        self.assertEqual("".join(p.content for p in parts), "one two three")
        self.assertGreater(sum((p.usage_metadata or {}).get("output_tokens", 0) for p in parts), 0)

    def test_tools_loop(self):
        bound = model().bind_tools([get_weather])
        messages = [HumanMessage(order(call("get_weather", {"town": "Köln"})))]
        first = bound.invoke(messages)
        self.assertEqual(first.tool_calls[0]["args"], {"town": "Köln"})
        messages += [first, ToolMessage(get_weather.invoke(first.tool_calls[0]["args"]), tool_call_id=first.tool_calls[0]["id"])]
        self.assertEqual(bound.invoke(messages).content, "It rains in Köln.")

    def test_streamed_tool_call(self):
        whole = None
        for part in model().bind_tools([get_weather]).stream(order(call("get_weather", {"town": "Bonn"}))):
            whole = part if whole is None else whole + part
        self.assertEqual(whole.tool_calls[0]["args"], {"town": "Bonn"})

    def test_structured_output(self):
        class Weather(BaseModel):
            town: str
            rain: bool

        r = model().with_structured_output(Weather, method="json_schema").invoke(order('{"town":"Köln","rain":true}'))
        self.assertEqual((r.town, r.rain), ("Köln", True))

    def test_errors(self):
        with self.assertRaises(openai.AuthenticationError):
            model(key="sk-no").invoke("x")
        with self.assertRaises(openai.BadRequestError):
            model(temperature=9).invoke("x")


if __name__ == "__main__":
    unittest.main()
