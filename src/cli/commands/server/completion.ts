/** `stoa completion`: a script that completes commands and flags in a shell. */
import { StoaError } from '../../../core/errors.js';
import type { Action, CommandDefinition } from '../../definitions/definition.js';
import { commandTree } from '../../tree/index.js';

/** The commands and flags that can follow a command, by its path: `''`, `'data'`, `'data ls'`. */
type Words = ReadonlyMap<string, readonly string[]>;

const globalFlags = [
  '--json',
  '--wide',
  '--data',
  '--config',
  '--url',
  '--token',
  '--user',
  '--agent',
  '--help',
];

const scripts: Readonly<Record<string, (words: Words) => string>> = {
  bash: (words) => `${posixWords(words)}
_stoa() {
  local path='' word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case " $(_stoa_words "$path") " in *" $word "*) [ "\${word#-}" = "$word" ] && path="\${path:+$path }$word" ;; esac
  done
  COMPREPLY=($(compgen -W "$(_stoa_words "$path")" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _stoa stoa
`,
  zsh: (words) => `#compdef stoa
${posixWords(words)}
_stoa() {
  local path_='' word
  for word in "\${words[@]:1:$((CURRENT - 2))}"; do
    case " $(_stoa_words "$path_") " in *" $word "*) [ "\${word#-}" = "$word" ] && path_="\${path_:+$path_ }$word" ;; esac
  done
  compadd -- \${=$(_stoa_words "$path_")} || _files
}
compdef _stoa stoa
`,
  fish: (words) => `function __stoa_words
    set -l path
    for word in (commandline -opc)[2..]
        contains -- $word (__stoa_after "$path"); and not string match -q -- '-*' $word; and set path (string trim "$path $word")
    end
    __stoa_after "$path"
end
function __stoa_after
    switch "$argv[1]"
${[...words].map(([path, next]) => `        case '${path}'\n            printf '%s\\n' ${next.join(' ')}`).join('\n')}
    end
end
complete -c stoa -a '(__stoa_words)'
`,
};

export const completion: Action = async (_context, [shell = '']) => {
  const script = Object.hasOwn(scripts, shell) ? scripts[shell] : undefined;
  if (script === undefined)
    throw new StoaError('invalid_request', `Unknown shell "${shell}".`, {
      fix: `Use ${Object.keys(scripts).join(', ')}.`,
    });
  process.stdout.write(script(new Map(wordsOf('', commandTree))));
};

function* wordsOf(
  path: string,
  commands: readonly CommandDefinition[],
  flags: readonly string[] = [],
): Generator<[string, readonly string[]]> {
  yield [path, [...commands.map(nameOf), ...flags, ...globalFlags]];
  for (const command of commands)
    yield* wordsOf(
      path === '' ? nameOf(command) : `${path} ${nameOf(command)}`,
      command.commands ?? [],
      (command.options ?? []).flatMap(([option]) => /--[\w-]+/.exec(option) ?? []),
    );
}

function nameOf({ usage }: CommandDefinition): string {
  return usage.split(' ', 1)[0] as string;
}

/** A function of bash and zsh that prints what can follow a path. */
function posixWords(words: Words): string {
  const cases = [...words].map(([path, next]) => `    '${path}') echo '${next.join(' ')}' ;;`);
  return `_stoa_words() {\n  case "$1" in\n${cases.join('\n')}\n  esac\n}`;
}
