// All operations, called with the openai package of npm. The package is loaded by the module that
// node imports first: a tour has no node_modules beside it.
import assert from "node:assert/strict";

const { OpenAI } = globalThis;
const maxRetries = process.argv[3] === "retrying" ? 2 : 0;
const client = new OpenAI({ baseURL: process.argv[2], apiKey: "any", maxRetries });
client.calculateDefaultRetryTimeoutMillis = () => 0; // the pause before a repetition
const { assistants, threads } = client.beta;

const calls = ["tide", "ebb"].map((word) => ({ name: "look_up", arguments: { word } }));
const script = JSON.stringify({ turns: [{ tool_calls: calls }, { text: "Both are known." }] });
const poll = { pollIntervalMs: 20 };

async function all(page) {
  const found = [];
  for await (const one of page) found.push(one);
  return found;
}

async function conversation() {
  const thread = await threads.create({ messages: [{ role: "user", content: "one" }] });
  assert.deepEqual(await threads.retrieve(thread.id), thread);
  const changed = await threads.update(thread.id, { metadata: { a: "b" } });
  assert.deepEqual(changed.metadata, { a: "b" });
  const inThread = { thread_id: thread.id };
  const message = await threads.messages.create(thread.id, { role: "user", content: "two" });
  assert.deepEqual(await threads.messages.retrieve(message.id, inThread), message);
  await threads.messages.update(message.id, { ...inThread, metadata: { n: "2" } });
  const texts = await all(threads.messages.list(thread.id, { limit: 1 }));
  assert.deepEqual(texts.map((one) => one.content[0].text.value), ["two", "one"]);
  assert.equal((await threads.messages.delete(message.id, inThread)).deleted, true);
  assert.equal((await threads.delete(thread.id)).deleted, true);
}

async function runs(assistant_id) {
  const thread = await threads.create({ messages: [{ role: "user", content: script }] });
  const inThread = { thread_id: thread.id };
  let run = await threads.runs.createAndPoll(thread.id, { assistant_id }, poll);
  assert.equal(run.status, "requires_action");
  const tool_outputs = run.required_action.submit_tool_outputs.tool_calls.map((call) => ({
    tool_call_id: call.id,
    output: "known",
  }));
  run = await threads.runs.submitToolOutputsAndPoll(run.id, { ...inThread, tool_outputs }, poll);
  assert.equal(run.status, "completed");
  assert.deepEqual((await all(threads.runs.list(thread.id))).map((one) => one.id), [run.id]);
  await threads.runs.update(run.id, { ...inThread, metadata: { a: "b" } });
  const steps = await all(threads.runs.steps.list(run.id, { ...inThread, order: "asc" }));
  assert.deepEqual(steps.map((step) => step.type), ["tool_calls", "message_creation"]);
  const ofRun = { ...inThread, run_id: run.id };
  assert.deepEqual(await threads.runs.steps.retrieve(steps[0].id, ofRun), steps[0]);
}

async function cancelled(assistant_id) {
  const thread = { messages: [{ role: "user", content: script }] };
  const made = await threads.createAndRunPoll({ assistant_id, thread }, poll);
  assert.equal(made.status, "requires_action");
  const inThread = { thread_id: made.thread_id };
  await assert.rejects(threads.runs.create(made.thread_id, { assistant_id }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.match(error.message, /already has an active run/);
    return true;
  });
  await threads.runs.cancel(made.id, inThread);
  assert.equal((await threads.runs.poll(made.id, inThread, poll)).status, "cancelled");
}

const assistant = await assistants.create({
  model: "scripted/inline",
  name: "Tides",
  tools: [{ type: "function", function: { name: "look_up" } }],
});
const other = await assistants.create({ model: "scripted/echo" });
const listed = await all(assistants.list({ limit: 1, order: "asc" }));
assert.deepEqual(listed.map((one) => one.id), [assistant.id, other.id]);
assert.deepEqual(await assistants.retrieve(assistant.id), assistant);
assert.equal((await assistants.update(assistant.id, { name: "The tides" })).name, "The tides");
await conversation();
await runs(assistant.id);
await cancelled(assistant.id);
assert.equal((await assistants.delete(other.id)).deleted, true);
await assert.rejects(assistants.retrieve(other.id), OpenAI.NotFoundError);
