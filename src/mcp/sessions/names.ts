/** Names for sessions whose client gave none: the program and an animal, such as `claude-code-otter`. */
import { randomBytes, randomInt } from 'node:crypto';

const animals = `
  badger beaver bison bobcat camel caribou cheetah condor coyote crane crow dingo dolphin eagle egret elk
  falcon ferret finch fox gazelle gecko gibbon goose grouse gull hare hawk hedgehog heron ibex ibis iguana
  impala jackal jaguar jay kestrel kiwi koala lark lemur lynx magpie marmot marten mink moose newt ocelot
  orca oryx osprey otter owl panda panther pelican penguin pigeon plover puffin puma quail rabbit raven
  robin salmon seal shrew sparrow squirrel starling stoat stork swan swift tapir tern thrush tiger toucan
  trout turtle vole walrus weasel whale wolf wombat woodpecker wren yak zebra
`
  .trim()
  .split(/\s+/);

const slugCharactersMax = 40;
/** So many random bytes never meet by chance. */
const unusedBytes = 6;

/** `Claude Code` becomes `claude-code`. A name without letters and digits becomes `agent`. */
function programSlug(program: string | undefined): string {
  const slug = (program ?? '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, slugCharactersMax)
    .replaceAll(/^-+|-+$/g, '');
  return slug === '' ? 'agent' : slug;
}

/** Names to choose from, in a random order. Each may belong to an agent already. */
export function nameCandidates(program: string | undefined): string[] {
  const slug = programSlug(program);
  const start = randomInt(animals.length);
  return [...animals.slice(start), ...animals.slice(0, start)].map((animal) => `${slug}-${animal}`);
}

/** A name that nobody has, such as `claude-code-otter-5f0c31a97be2`. */
export function unusedName(program: string | undefined): string {
  return `${nameCandidates(program)[0]}-${randomBytes(unusedBytes).toString('hex')}`;
}
