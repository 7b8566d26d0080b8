"""What the CDK command runs: `npx cdk deploy -c env=prod '**'`."""

import sys

from stacks.synth import environment_of_command, synthesize

sys.exit(synthesize(environment_of_command()))
