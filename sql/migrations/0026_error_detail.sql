-- Version 26: why an answer failed as a code with its numbers, beside the words, so that each reader reads it in one's own language.
-- Rows from before get the code of the words that the server wrote then; of others the words stay all there is.
ALTER TABLE messages ADD COLUMN error_detail TEXT CHECK (error_detail GLOB '{*}');
-- It is text of its owner's like the others.
DROP VIEW message_bytes;
CREATE VIEW message_bytes AS
SELECT m.id, c.user_id, length(CAST(m.content AS BLOB)) + length(CAST(m.reasoning AS BLOB))
    + length(CAST(coalesce(m.tool_calls, '') || coalesce(m.tool_call_id, '') || coalesce(m.error, '') || coalesce(m.model, '')
        || coalesce(m.job_key, '') || coalesce(m.parser, '') || coalesce(m.timings, '') || coalesce(m.error_detail, '') AS BLOB)) AS bytes
FROM messages m JOIN conversations c ON c.id = m.conversation_id;
UPDATE messages SET error_detail = json_object('code', CASE error
        WHEN 'the engine was started anew in the middle of the answer' THEN 'engine_restarted'
        WHEN 'the engine stopped in the middle of the answer' THEN 'engine_stopped'
        WHEN 'the connection to the engine breaks again and again' THEN 'engine_connection'
        WHEN 'the answer was never begun, or the engine has forgotten it' THEN 'answer_lost'
        WHEN 'the engine is loading the model' THEN 'model_loading'
        WHEN 'no model is loaded now' THEN 'model_unloaded'
        WHEN 'the model is being switched; try again in a moment' THEN 'model_switching'
        WHEN 'the GPU was lost' THEN 'device_failed'
        ELSE 'engine_unavailable' END, 'params', json_object())
WHERE status = 'error' AND error IN ('the engine was started anew in the middle of the answer',
    'the engine stopped in the middle of the answer', 'the connection to the engine breaks again and again',
    'the answer was never begun, or the engine has forgotten it', 'the engine is loading the model',
    'no model is loaded now', 'the model is being switched; try again in a moment', 'the GPU was lost',
    'the engine is stopping', 'the engine does not answer');
PRAGMA user_version = 26;
