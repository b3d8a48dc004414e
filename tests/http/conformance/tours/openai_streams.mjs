// Plays scenarios with the stream helpers of openai-node, and tells what they gathered.
// Reads a list of scenarios from stdin, writes one result for each to stdout, both as JSON.

import { readFileSync } from 'node:fs';

const OpenAI = globalThis.OpenAI;
const names = ['look_up', 'measure'];

async function follow(client, stream, scenario, result) {
  let run = null;
  let cancels = scenario.cancels;
  stream.on('event', ({ event, data }) => {
    result.events.push(event);
    if (event.startsWith('thread.run.') && !event.includes('.step.')) {
      run = data;
      result.status = data.status;
    }
    if (event === 'thread.message.delta' && cancels) {
      cancels = false;
      client.beta.threads.runs.cancel(run.id, { thread_id: run.thread_id });
    }
  });
  stream.on('textDelta', (_, snapshot) => {
    result.texts[stream.currentMessageSnapshot().id] = snapshot.value;
  });
  stream.on('runStepDelta', (_, snapshot) => {
    result.calls[snapshot.id] = snapshot.step_details.tool_calls.map((call) => [
      call.id,
      call.function.name,
      call.function.arguments,
    ]);
  });
  await stream.done();
  await stream.finalRun();
  if (run.status === 'requires_action') {
    const calls = run.required_action.submit_tool_outputs.tool_calls;
    const tool_outputs = calls.map((call) => ({ tool_call_id: call.id, output: 'known' }));
    const next = client.beta.threads.runs.submitToolOutputsStream(run.id, {
      thread_id: run.thread_id,
      tool_outputs,
    });
    await follow(client, next, { ...scenario, cancels }, result);
  }
}

async function play(scenario) {
  const client = new OpenAI({ baseURL: scenario.url, apiKey: 'any', maxRetries: 0 });
  const tools = names.map((name) => ({ type: 'function', function: { name } }));
  const assistant = await client.beta.assistants.create({ model: 'scripted/inline', tools });
  const content = JSON.stringify({ turns: scenario.turns });
  const thread = await client.beta.threads.create({ messages: [{ role: 'user', content }] });
  const result = { thread_id: thread.id, events: [], texts: {}, calls: {}, status: null };
  const stream = client.beta.threads.runs.stream(thread.id, { assistant_id: assistant.id });
  await follow(client, stream, scenario, result);
  return result;
}

const results = [];
for (const scenario of JSON.parse(readFileSync(0, 'utf8'))) {
  results.push(await play(scenario));
}
process.stdout.write(JSON.stringify(results));
