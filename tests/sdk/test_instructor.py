"""instructor: answers of a type by a tool, by a schema and by a prompt, streamed as they grow, and asked for again when invalid."""
import unittest

import anthropic
import instructor
import openai
from instructor.exceptions import InstructorRetryException
from pydantic import BaseModel, field_validator

from house import BASE, KEY, MODEL, URL, call, order, says


class Weather(BaseModel):
    town: str
    rain: bool

    @field_validator("town")
    @classmethod
    def is_known(cls, town):
        if town == "Nowhere":
            raise ValueError(order(call("Weather", {"town": "Bonn", "rain": False})))  # goes back to the model
        return town


WANT = Weather(town="Köln", rain=True)


def client(mode=instructor.Mode.TOOLS, key=KEY):
    return instructor.from_openai(openai.OpenAI(base_url=BASE, api_key=key, max_retries=0), mode=mode)


class Extraction(unittest.TestCase):
    def test_modes(self):
        as_call, as_text = says(call("Weather", WANT.model_dump())), says(WANT.model_dump_json())
        modes = instructor.Mode
        for mode, messages in ((modes.TOOLS, as_call), (modes.TOOLS_STRICT, as_call), (modes.JSON, as_text), (modes.JSON_SCHEMA, as_text),
                               (modes.MD_JSON, says(f"```json\n{WANT.model_dump_json()}\n```"))):
            with self.subTest(mode):
                r = client(mode).create(model=MODEL, response_model=Weather, messages=messages, max_retries=1)
                self.assertEqual(r.model_dump(), WANT.model_dump())

    def test_anthropic(self):
        ours = anthropic.Anthropic(base_url=URL, api_key=KEY, max_retries=0)
        c = instructor.from_anthropic(ours, mode=instructor.Mode.ANTHROPIC_TOOLS)
        r = c.create(model=MODEL, max_tokens=100, response_model=Weather, messages=says(call("Weather", WANT.model_dump())), max_retries=1)
        self.assertEqual(r.model_dump(), WANT.model_dump())

    def test_partial(self):
        parts = list(client(instructor.Mode.JSON_SCHEMA).create_partial(model=MODEL, response_model=Weather, messages=says(WANT.model_dump_json())))
        self.assertEqual(parts[-1].model_dump(), WANT.model_dump())
        self.assertGreater(len(parts), 2)

    def test_asks_again(self):
        r = client().create(model=MODEL, response_model=Weather, messages=says(call("Weather", {"town": "Nowhere", "rain": True})), max_retries=2)
        self.assertEqual((r.town, r.rain), ("Bonn", False))

    def test_errors(self):
        with self.assertRaises(InstructorRetryException) as caught:
            client(key="sk-no").create(model=MODEL, response_model=Weather, messages=says(), max_retries=1)
        self.assertIn("401", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
