"""pydantic-ai's agents over all three forms: a tool's loop, validated output, a stream, settings, errors."""
import unittest

import anthropic
import openai
from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from house import BASE, KEY, MODEL, URL, AsyncCase, call, order


class Weather(BaseModel):
    town: str
    rain: bool


def get_weather(town: str) -> str:
    """Weather of a town."""
    return order(f"It rains in {town}.")


class Agents(AsyncCase):
    def models(self, key=KEY):
        ours = OpenAIProvider(openai_client=self.closing(openai.AsyncOpenAI(base_url=BASE, api_key=key, max_retries=0)))
        theirs = AnthropicProvider(anthropic_client=self.closing(anthropic.AsyncAnthropic(base_url=URL, api_key=key, max_retries=0)))
        able = {"supports_json_schema_output": True}  # it knows Anthropic's own models alone
        return OpenAIChatModel(MODEL, provider=ours), OpenAIResponsesModel(MODEL, provider=ours), AnthropicModel(MODEL, provider=theirs, profile=able)

    async def test_tools_loop(self):
        async def check(model):
            r = await Agent(model, tools=[get_weather], instructions="Be brief.").run(order(call("get_weather", {"town": "Köln"})))
            self.assertEqual(r.output, "It rains in Köln.")
            self.assertEqual(r.usage.tool_calls, 1)
            self.assertGreater(r.usage.output_tokens, 5)

        await self.of_each(self.models(), check)

    async def test_output_of_a_type(self):
        want = Weather(town="Köln", rain=True)
        said = order(want.model_dump_json())

        async def check(model):
            by_tool = await Agent(model, output_type=Weather).run(order(call("final_result", want.model_dump())))
            self.assertEqual(by_tool.output, want)
            self.assertEqual((await Agent(model, output_type=NativeOutput(Weather)).run(said)).output, want)
            self.assertEqual((await Agent(model, output_type=PromptedOutput(Weather)).run(said)).output, want)

        await self.of_each(self.models(), check)

    async def test_stream(self):
        async def check(model):
            async with Agent(model).run_stream(order("one two three")) as r:
                text = "".join([t async for t in r.stream_text(delta=True)])
            self.assertEqual(text, "one two three")
            self.assertGreater(r.usage.output_tokens, 2)

        await self.of_each(self.models(), check)

    async def test_settings(self):
        async def check(model):
            r = await Agent(model, model_settings={"max_tokens": 2, "temperature": 0.1, "seed": 7, "thinking": "low"}).run(order("one two three four"))
            self.assertEqual(r.response.finish_reason, "length")

        await self.of_each(self.models(), check)

    async def test_errors(self):
        async def stranger(model):
            with self.assertRaises(ModelHTTPError) as caught:
                await Agent(model).run("x")
            self.assertEqual(caught.exception.status_code, 401)

        async def wrong(model):
            with self.assertRaises(ModelHTTPError) as caught:
                await Agent(model, model_settings={"temperature": 9}).run("x")
            self.assertEqual(caught.exception.status_code, 400)
            self.assertIn("temperature", str(caught.exception.body))

        await self.of_each(self.models("sk-no"), stranger)
        await self.of_each(self.models(), wrong)


if __name__ == "__main__":
    unittest.main()
