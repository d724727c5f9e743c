/** Every tool, in the order in which clients show them. */
import { type ListedTool, type Tool, listedTool } from '../tool.js';
import { agentTools } from './agents.js';
import { commitTools } from './commit.js';
import { findTools } from './find.js';
import { lockTools } from './locks.js';
import { memoryTools } from './memory.js';
import { messageTools } from './messages.js';
import { taskTools } from './tasks.js';

const all: readonly Tool[] = [
  ...memoryTools,
  ...taskTools,
  ...messageTools,
  ...findTools,
  ...lockTools,
  ...agentTools,
  ...commitTools,
];

export const tools: ReadonlyMap<string, Tool> = new Map(all.map((tool) => [tool.name, tool]));

let listed: ListedTool[] | undefined;

/** Made once: it is the same for every client. */
export function toolList(): ListedTool[] {
  listed ??= all.map(listedTool);
  return listed;
}
