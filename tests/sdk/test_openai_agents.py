"""OpenAI's Agents SDK over chat completions and responses: a tool's loop, streamed runs, a handoff, output of a type."""
import unittest

import openai
from agents import (Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIConversationsSession, OpenAIResponsesModel, RunConfig, Runner,
                    function_tool, set_tracing_disabled)
from openai.types.shared import Reasoning
from pydantic import BaseModel

from house import BASE, KEY, MODEL, AsyncCase, call, order

set_tracing_disabled(True)  # it would go to OpenAI


class Weather(BaseModel):
    town: str
    rain: bool


@function_tool
def get_weather(town: str) -> str:
    """Weather of a town."""
    return order(f"It rains in {town}.")


class Runs(AsyncCase):
    def models(self, key=KEY):
        client = self.closing(openai.AsyncOpenAI(base_url=BASE, api_key=key, max_retries=0))
        return OpenAIChatCompletionsModel(MODEL, client), OpenAIResponsesModel(MODEL, client)

    async def test_tools_loop(self):
        async def check(model):
            agent = Agent(name="A", instructions="Be brief.", model=model, tools=[get_weather])
            r = await Runner.run(agent, order(call("get_weather", {"town": "Köln"})))
            self.assertEqual(r.final_output, "It rains in Köln.")
            self.assertEqual([type(i).__name__ for i in r.new_items], ["ToolCallItem", "ToolCallOutputItem", "MessageOutputItem"])
            self.assertEqual(r.context_wrapper.usage.requests, 2)
            self.assertGreater(r.context_wrapper.usage.output_tokens, 5)

        await self.of_each(self.models(), check)

    async def test_streamed_run(self):
        async def check(model):
            r = Runner.run_streamed(Agent(name="A", model=model, tools=[get_weather]), order(call("get_weather", {"town": "Bonn"})))
            text = ""
            async for event in r.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    text += event.data.delta
            self.assertEqual(text, "It rains in Bonn.")
            self.assertEqual(r.final_output, text)

        await self.of_each(self.models(), check)

    async def test_handoff(self):
        async def check(model):
            second = Agent(name="Second", model=model)
            first = Agent(name="First", model=model, handoffs=[second])
            question = order(steps=[call("transfer_to_second", {}), "Done by the second."])
            r = await Runner.run(first, question)
            self.assertEqual(r.last_agent.name, "Second")
            self.assertEqual(r.final_output, "Done by the second.")

        await self.of_each(self.models(), check)

    async def test_output_of_a_type(self):
        async def check(model):
            r = await Runner.run(Agent(name="A", model=model, output_type=Weather), order('{"town":"Köln","rain":true}'))
            self.assertEqual(r.final_output, Weather(town="Köln", rain=True))

        await self.of_each(self.models(), check)

    async def test_settings(self):
        settings = ModelSettings(truncation="auto", verbosity="low", reasoning=Reasoning(effort="low"), parallel_tool_calls=False,
                                 max_tokens=50, temperature=0.2, store=False, metadata={"a": "b"})

        async def check(model):
            r = await Runner.run(Agent(name="A", model=model, tools=[get_weather]), order("An answer."), run_config=RunConfig(model_settings=settings))
            self.assertEqual(r.final_output, "An answer.")

        await self.of_each(self.models(), check)

    async def test_session(self):
        model = self.models()[1]  # a conversation's items have no ids when it sends them, and its chats can't read such
        session = OpenAIConversationsSession(openai_client=self.closing(openai.AsyncOpenAI(base_url=BASE, api_key=KEY, max_retries=0)))
        agent = Agent(name="A", model=model, tools=[get_weather])
        first = await Runner.run(agent, order(call("get_weather", {"town": "Köln"})), session=session)
        self.assertEqual(first.final_output, "It rains in Köln.")
        second = await Runner.run(agent, order("And more."), session=session)
        self.assertEqual(second.final_output, "And more.")
        before, now = first.raw_responses[-1].usage.input_tokens, second.raw_responses[0].usage.input_tokens
        self.assertGreater(now, before)
        types = [i.get("type", "message") for i in await session.get_items()]
        self.assertEqual(types, ["message", "function_call", "function_call_output", "message", "message", "message"])
        self.assertEqual((await session.pop_item())["content"][0]["text"], "And more.")
        self.assertEqual(len(await session.get_items(limit=100)), 5)
        await session.clear_session()

    async def test_errors(self):
        async def stranger(model):
            with self.assertRaises(openai.AuthenticationError):
                await Runner.run(Agent(name="A", model=model), "x")

        async def wrong(model):
            with self.assertRaises(openai.BadRequestError) as caught:
                await Runner.run(Agent(name="A", model=model, model_settings=ModelSettings(temperature=9)), "x")
            self.assertEqual(caught.exception.param, "temperature")

        await self.of_each(self.models("sk-no"), stranger)
        await self.of_each(self.models(), wrong)


if __name__ == "__main__":
    unittest.main()
