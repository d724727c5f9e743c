/** Names for sessions whose client gave none: the program and an animal, such as `claude-code-otter`. */
import { randomInt } from 'node:crypto';

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
const numberMax = 10_000;

/** `Claude Code` becomes `claude-code`. A name without letters and digits becomes `agent`. */
function programSlug(program: string | undefined): string {
  const slug = (program ?? '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, slugCharactersMax)
    .replaceAll(/^-+|-+$/g, '');
  return slug === '' ? 'agent' : slug;
}

/** Names to choose from, in a random order. The last ones have a number and are practically always free. */
export function nameCandidates(program: string | undefined): string[] {
  const slug = programSlug(program);
  const start = randomInt(animals.length);
  const order = [...animals.slice(start), ...animals.slice(0, start)];
  const numbered = order.slice(0, 4).map((animal) => `${animal}-${randomInt(numberMax)}`);
  return [...order, ...numbered].map((animal) => `${slug}-${animal}`);
}
