/** The name of an agent, as a link where the agent is known. */
import { useEffect } from 'preact/hooks';
import { useObservable } from '../observable.js';
import { href } from '../router.js';
import { useWorld } from '../live/use-world.js';
import { visible } from './format.js';

export function AgentName({ name, user }: { name: string; user?: string | undefined }) {
  const { agents } = useWorld();
  useObservable(agents.round);
  useEffect(() => agents.use(), [agents]);
  const [agent, another] = [...agents.items.values()].filter(
    (each) => each.name === name && (user === undefined || each.user === user),
  );
  // Two users can have agents of one name.
  if (agent === undefined || another !== undefined) return <>{visible(name)}</>;
  return <a href={href(['fleet', agent.agent_id])}>{visible(name)}</a>;
}
