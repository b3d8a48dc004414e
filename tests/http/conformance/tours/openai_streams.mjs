// Plays scenarios with the stream helpers of openai-node, and tells what they gathered.
// Reads a list of scenarios from stdin, writes one result for each to stdout, both as JSON.

import { readFileSync } from 'node:fs';

const OpenAI = globalThis.OpenAI;

async function follow(client, stream, scenario, result) {
  let run = null;
  stream.on('event', ({ event, data }) => {
    result.events.push(event);
    if (event.startsWith('thread.run.') && !event.includes('.step.')) {
      run = data;
      result.thread_id = data.thread_id;
      result.status = data.status;
    }
    if (event === scenario.cancels_at) {
      scenario.cancels_at = null;
      client.beta.threads.runs.cancel(run.id, { thread_id: run.thread_id });
    }
    if (event === scenario.tells_of) {
      process.stderr.write('so far\n');
    }
  });
  stream.on('messageDelta', (_, snapshot) => {
    result.texts[snapshot.id] = snapshot.content
      .map((part) => (part.type === 'text' ? part.text.value : part.refusal))
      .join('');
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
    await follow(client, next, scenario, result);
  }
}

async function play(scenario) {
  const client = new OpenAI({ baseURL: scenario.url, apiKey: 'any', maxRetries: 0 });
  const { assistants, threads } = client.beta;
  const tools = scenario.tools.map((name) => ({ type: 'function', function: { name } }));
  const assistant = await assistants.create({ model: 'scripted/inline', tools });
  const messages = [{ role: 'user', content: JSON.stringify({ turns: scenario.turns }) }];
  const body = { assistant_id: assistant.id, ...scenario.limits };
  const result = { events: [], texts: {}, calls: {}, error: null };
  try {
    const stream = scenario.makes_thread
      ? threads.createAndRunStream({ ...body, thread: { messages } })
      : threads.runs.stream((await threads.create({ messages })).id, body);
    await follow(client, stream, scenario, result);
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) throw error;
    result.error = error.code;
  }
  return result;
}

const results = await Promise.all(JSON.parse(readFileSync(0, 'utf8')).map(play));
process.stdout.write(JSON.stringify(results));
